// A statement's text and what comes back of it.

export interface Text {
  readonly text: string
  /** What comes back: an object, the first column alone, or all columns as a list (half the cost of an object). */
  readonly gives: 'row' | 'value' | 'cells'
}

export const row = (text: string): Text => ({ text, gives: 'row' })
export const value = (text: string): Text => ({ text, gives: 'value' })
export const cells = (text: string): Text => ({ text, gives: 'cells' })
