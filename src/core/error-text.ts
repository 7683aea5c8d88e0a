// What a thrown thing says, whatever it is: user code may throw anything, and reading it may throw again.

/** Never throws. */
export function errorText(error: unknown): string {
  try {
    const text = error instanceof Error ? named(error) : typeof error === 'string' ? error : JSON.stringify(error)
    return typeof text === 'string' ? text : String(error)
  } catch {
    return 'an error that cannot be read'
  }
}

function named({ name, message }: Error): string {
  return name === 'Error' ? String(message) : `${String(name)}: ${String(message)}`
}
