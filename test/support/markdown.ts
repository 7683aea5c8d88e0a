// The fenced blocks of a document, with where they stand, so that a test can name them.

export interface Block {
  readonly document: string
  /** Of its first line of text, from 1. */
  readonly line: number
  /** As written after the fence; empty where nothing is. */
  readonly language: string
  readonly text: string
}

export interface Command {
  readonly document: string
  readonly line: number
  /** Without its comment. */
  readonly text: string
}

const FENCE = /^\s*(`{3,}|~{3,})\s*([^\s`]*)/

/** @throws Error for a fence that nothing closes: it would hide all blocks after it. */
export function blocksOf(document: string, markdown: string): Block[] {
  const blocks: Block[] = []
  const lines = markdown.split('\n')
  for (let i = 0; i < lines.length; i++) {
    const [, fence = '', language = ''] = FENCE.exec(lines[i] ?? '') ?? []
    if (fence === '') continue
    const end = lines.findIndex((line, index) => index > i && line.trim() === fence)
    if (end === -1) throw new Error(`${document}:${i + 1}: this fence is not closed`)
    blocks.push({ document, line: i + 2, language, text: lines.slice(i + 1, end).join('\n') })
    i = end
  }
  return blocks
}

/** What a reader would type, one by one: lines that end in a backslash go on, comments are none. */
export function commandsOf(block: Block): Command[] {
  const commands: Command[] = []
  let typed = ''
  let line = 0
  for (const [index, text] of block.text.split('\n').entries()) {
    if (typed === '') line = block.line + index
    typed += text
    if (text.endsWith('\\')) {
      typed += '\n'
      continue
    }
    const command = typed.replace(/(^|\s+)# .*$/, '').trim()
    if (command !== '') commands.push({ document: block.document, line, text: command })
    typed = ''
  }
  return commands
}
