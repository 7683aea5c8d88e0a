// Takes secrets out of whatever may be stored or shown: answers that echo a token, errors that quote a header.

export const REDACTED = '[redacted]'

/** Shorter ones would blank out half of every text. */
const SHORTEST_SECRET = 4
/** In encoded forms and as a cut-off beginning, short secrets match by chance. */
const SHORTEST_ENCODED = 6

export interface Redactor {
  redact(text: string): string
  /**
   * The redacted beginning of a text: of at most `chars` source characters, a secret across that edge taken out whole.
   * `isCut`: the text itself was cut off, maybe inside a secret.
   */
  redactHead(text: string, chars: number, isCut: boolean): string
}

/** @param secrets values that must never appear, also not JSON-escaped, percent-encoded or in base64. */
export function createRedactor(secrets: Iterable<string>): Redactor {
  const forms = [...new Set([...secrets].filter((secret) => secret.length >= SHORTEST_SECRET).flatMap(formsOf))]
  if (forms.length === 0) return { redact: (text) => text, redactHead: (text, chars) => text.slice(0, chars) }
  forms.sort((a, b) => b.length - a.length)
  const longest = forms[0]?.length ?? 0
  const pattern = new RegExp(forms.map(escapePattern).join('|'), 'gi')
  return {
    redact: (text) => text.replace(pattern, REDACTED),
    redactHead: (text, chars, isCut) => {
      const whole = isCut ? withoutCutSecret(text, forms) : text
      const seen = whole.slice(0, chars + longest)
      let head = ''
      let from = 0
      for (const match of seen.matchAll(pattern)) {
        if (match.index >= chars) break
        head += seen.slice(from, match.index) + REDACTED
        from = match.index + match[0].length
      }
      return head + seen.slice(from, Math.max(from, chars))
    },
  }
}

/** A header's value and what follows its scheme: `Bearer x` and `x`. */
export function secretsOfHeader(value: string): string[] {
  const [, credentials] = /^\S+\s+(\S.*)$/.exec(value) ?? []
  return credentials === undefined ? [value] : [value, credentials]
}

function formsOf(secret: string): string[] {
  if (secret.length < SHORTEST_ENCODED) return [secret]
  const json = JSON.stringify(secret).slice(1, -1)
  const percent = encodeURIComponent(secret.toWellFormed())
  const lowered = percent.replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase())
  const form = new URLSearchParams([['', secret]]).toString().slice(1)
  const hex = Buffer.from(secret, 'utf8').toString('hex')
  const plain = [secret, json, json.replaceAll('/', '\\/'), percent, lowered, form, encodeURI(secret.toWellFormed())]
  return [...plain, hex, htmlForm(secret), ...unicodeForms(secret), ...base64FormsOf(secret)]
}

/** As encoders write JSON that keep to ASCII, or that keep clear of HTML. */
function unicodeForms(secret: string): string[] {
  const escaped = (text: string) => `\\u${text.charCodeAt(0).toString(16).padStart(4, '0')}`
  const ascii = JSON.stringify(secret)
    .slice(1, -1)
    .replace(/[^ -~]/g, escaped)
  const withBackslashes = secret.replaceAll('\\', '\\\\')
  const clear = [/[^ -~]|[<>&'"+`]/g, /[^ -~]|[<>&'"+`/=]/g].map((marks) => withBackslashes.replace(marks, escaped))
  return [ascii, ...clear]
}

function htmlForm(secret: string): string {
  const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
  return secret.replace(/[&<>"']/g, (mark) => names[mark] ?? mark)
}

/** The stretch of base64 that only the secret decides, at each of the three places where it can begin. */
function base64FormsOf(secret: string): string[] {
  return [0, 1, 2].flatMap((offset) => {
    const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(secret, 'utf8')])
    const stable = bytes.toString('base64').slice(Math.ceil((offset * 8) / 6), Math.floor((bytes.length * 8) / 6))
    return [stable, stable.replaceAll('+', '-').replaceAll('/', '_')]
  })
}

function withoutCutSecret(text: string, forms: readonly string[]): string {
  for (const form of forms) {
    for (let length = Math.min(form.length - 1, text.length); length >= SHORTEST_SECRET; length--) {
      if (text.endsWith(form.slice(0, length))) return text.slice(0, -length) + REDACTED
    }
  }
  return text
}

function escapePattern(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\/-]/g, '\\$&')
}
