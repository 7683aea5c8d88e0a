// What is known of a call or a lookup, in one line for people.
import type { Evidence } from '../core/outcome.ts'

const PHASES: Readonly<Record<Evidence['phase'], string>> = {
  not_sent: 'not sent',
  unanswered: 'sent, not answered',
  cut: 'the answer was cut off',
  answered: 'answered',
}

/** `answered HTTP 502, rule default: {"error":"upstream"}`. */
export function evidenceWords({ phase, status, error, rule, note, body }: Evidence): string {
  const facts = [
    `${PHASES[phase]}${status === undefined ? '' : ` HTTP ${status}`}`,
    error ?? '',
    rule === undefined ? '' : `rule ${rule}`,
    note ?? '',
  ].filter((fact) => fact !== '')
  return `${facts.join(', ')}${body === undefined || body === '' ? '' : `: ${body}`}`
}
