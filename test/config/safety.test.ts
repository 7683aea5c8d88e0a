import { describe, expect, test } from 'vitest'
import type { Fault } from '../../src/config/faults.ts'
import { parseConfig } from '../../src/config/options.ts'
import { isOnceishError } from '../../src/core/errors.ts'

const SUBMIT = { url: 'https://api.example.com/v1/jobs' }
const OPAQUE = { submit: SUBMIT, taskId: '{% $response.body.id %}' }
const KEYED = { ...OPAQUE, idempotency: { header: 'Idempotency-Key', rememberedFor: '24h' } }
const LOOKUP = { url: 'https://api.example.com/v1/jobs?ref={% $key %}', taskId: '{% $response.body.id %}' }
const LOOKED_UP = { ...KEYED, lookup: LOOKUP }

function faultsOf(raw: unknown): readonly Fault[] {
  try {
    parseConfig(raw, { path: null, baseDir: '/' })
    return []
  } catch (error) {
    if (!isOnceishError(error) || error.code !== 'CONFIG_INVALID') throw error
    const faults = error.details['faults'] as readonly Fault[]
    const lines = error.message.split('\n')
    for (const { path, message } of faults) expect(lines).toContain(path === '' ? message : `${path}: ${message}`)
    return faults
  }
}

function targetFaults(target: unknown): readonly Fault[] {
  return faultsOf({ targets: { t: target } })
}

/** Exactly one fault, at this field of the target, for this reason. */
function expectOneFault(target: unknown, path: string, reason: RegExp): void {
  const faults = targetFaults(target)
  expect(faults.map((fault) => fault.path)).toEqual([`targets.t.${path}`])
  expect(faults[0]?.message).toMatch(reason)
}

test.each([OPAQUE, KEYED, LOOKED_UP])('a safe target has no fault', (target) => {
  expect(targetFaults(target)).toEqual([])
})

describe('windows', () => {
  test('a retry horizon longer than the window less its margin is refused, at the very millisecond', () => {
    // 2 attempts of 1000 ms with a backoff of 500 ms between them.
    const target = (rememberedFor: number) => ({
      ...OPAQUE,
      submit: { ...SUBMIT, timeoutMs: 1000 },
      idempotency: { header: 'K', rememberedFor, margin: 2000, arrivalMs: 1000 },
      retry: { maxAttempts: 2, initialMs: 500, maxMs: 9000 },
    })
    expect(targetFaults(target(4500))).toEqual([])
    expectOneFault(target(4499), 'retry', /2 attempts .* can last 2s 500ms.*rememberedFor less margin is 2s 499ms/)
  })

  test('the longest backoffs are added up, each bounded by maxMs', () => {
    const target = (rememberedFor: number) => ({
      ...OPAQUE,
      submit: { ...SUBMIT, timeoutMs: 1000 },
      idempotency: { header: 'K', rememberedFor, margin: 2000, arrivalMs: 1000 },
      retry: { maxAttempts: 5, initialMs: 500, maxMs: 1500 },
    })
    // 5 x 1000 + 500 + 1000 + 1500 + 1500
    expect(targetFaults(target(2000 + 9500))).toEqual([])
    expectOneFault(target(2000 + 9499), 'retry', /5 attempts/)
  })

  test('a margin that does not cover a call and its late arrival is refused', () => {
    const target = (margin: number) => ({ ...KEYED, idempotency: { ...KEYED.idempotency, margin, arrivalMs: 20_000 } })
    expect(targetFaults(target(50_000))).toEqual([])
    expectOneFault(target(49_999), 'idempotency.margin', /at least 50000.*timeoutMs \(30000\) plus arrivalMs \(20000\)/)
  })

  test('with `forever` neither is asked', () => {
    const target = { ...KEYED, idempotency: { header: 'K', rememberedFor: 'forever', margin: 0 } }
    expect(targetFaults({ ...target, retry: { maxAttempts: 1000 } })).toEqual([])
  })

  test('a lease shorter than a call is refused', () => {
    const config = (leaseMs: number) => ({ worker: { leaseMs }, targets: { t: KEYED } })
    expect(faultsOf(config(30_500))).toEqual([])
    const [fault] = faultsOf(config(30_499))
    expect(fault?.path).toBe('worker.leaseMs')
    expect(fault?.message).toMatch(/at least 30500, which is targets\.t\.submit\.timeoutMs \(30000\) plus 500 ms/)
  })
})

describe('the ladder', () => {
  test('with replay needs a key', () => {
    expectOneFault({ ...OPAQUE, recovery: ['replay', 'hold'] }, 'recovery', /replay, which needs a key/)
  })

  test('with replay needs a known window', () => {
    const target = { ...OPAQUE, idempotency: { header: 'K' }, recovery: ['replay', 'hold'] }
    expectOneFault(target, 'recovery', /how long the key is remembered; set idempotency\.rememberedFor/)
  })

  test('with lookup needs a lookup', () => {
    expectOneFault(
      { ...KEYED, recovery: ['lookup', 'hold'] },
      'recovery',
      /names lookup, and the target describes none/,
    )
  })

  test('must end in hold', () => {
    expectOneFault({ ...KEYED, recovery: ['replay'] }, 'recovery', /must end in hold/)
    expectOneFault({ ...KEYED, recovery: [] }, 'recovery', /must end in hold/)
    expectOneFault({ ...KEYED, recovery: ['hold', 'replay'] }, 'recovery', /must end in hold/)
  })

  test('names no rung twice', () => {
    expectOneFault({ ...KEYED, recovery: ['replay', 'replay', 'hold'] }, 'recovery', /names replay twice/)
  })

  test('has only known rungs', () => {
    const faults = targetFaults({ ...KEYED, recovery: ['repaly', 'hold'] })
    expect(faults[0]?.path).toBe('targets.t.recovery[0]')
    expect(faults[0]?.message).toMatch(/expected "lookup", "replay", "hold", got "repaly"; did you mean "replay"/)
  })
})

describe('the lookup', () => {
  test('must depend on the key or the payload', () => {
    const target = { ...KEYED, lookup: { ...LOOKUP, url: 'https://api.example.com/v1/jobs?limit=1' } }
    expectOneFault(target, 'lookup.url', /neither \$key nor \$payload/)
    expect(targetFaults({ ...KEYED, lookup: { ...target.lookup, headers: { 'x-ref': '{% $key %}' } } })).toEqual([])
    const posted = { ...target.lookup, method: 'POST', body: { ref: '{% $payload.ref %}' } }
    expect(targetFaults({ ...KEYED, lookup: posted })).toEqual([])
  })

  test('may ask for a whole list where it picks by the key', () => {
    const list = { ...LOOKUP, url: 'https://api.example.com/v1/jobs?limit=100' }
    const picked = { ...list, taskId: '{% $response.body.data[metadata.ref = $key].id %}' }
    expect(targetFaults({ ...KEYED, dedupe: 'live', lookup: picked })).toEqual([])
    const judged = { ...list, complete: '{% $response.body.data[0].ref = $key %}' }
    expectOneFault({ ...KEYED, lookup: judged }, 'lookup.url', /pick by \$key in lookup\.taskId/)
  })

  test('with missMeans absent must say how long the API remembers', () => {
    const lookup = { ...LOOKUP, missMeans: 'absent' }
    expectOneFault({ ...KEYED, lookup }, 'lookup.missMeans', /absent needs lookup\.remembers/)
    expect(targetFaults({ ...KEYED, lookup: { ...lookup, remembers: '7d' } })).toEqual([])
  })

  test.each(['live', 'none'])('must depend on the key where dedupe is %s', (dedupe) => {
    const lookup = { ...LOOKUP, url: 'https://api.example.com/v1/jobs?ref={% $payload.ref %}' }
    expectOneFault({ ...KEYED, lookup, dedupe }, 'dedupe', /needs a lookup that depends on \$key/)
    expect(targetFaults({ ...KEYED, lookup })).toEqual([])
    expect(targetFaults({ ...LOOKED_UP, dedupe })).toEqual([])
  })
})

describe('the key', () => {
  test('of a client-chosen id must stand in the URL or the body', () => {
    const target = { submit: { ...SUBMIT, headers: { 'x-id': '{% $key %}' } }, idempotency: { clientId: true } }
    expectOneFault(target, 'idempotency.clientId', /needs \$key in submit\.url or in the body/)
    const put = { method: 'PUT', url: 'https://api.example.com/v1/jobs/{% $key %}' }
    expect(targetFaults({ ...target, submit: put })).toEqual([])
    expect(targetFaults({ ...target, submit: { ...SUBMIT, body: { name: '{% $key %}' } } })).toEqual([])
  })

  test('must be sent somewhere', () => {
    const target = { ...OPAQUE, idempotency: {} }
    expectOneFault(target, 'idempotency', /the key is sent nowhere/)
    for (const submit of [
      { ...SUBMIT, headers: { 'x-id': '{% $key %}' } },
      { ...SUBMIT, body: { token: '{% $key %}' } },
      { ...SUBMIT, form: { token: ['{% $key %}'] } },
      { url: 'https://api.example.com/v1/jobs?k={% $key %}' },
      { url: 'https://api.example.com/v1/{% $key %}' },
    ]) {
      expect(targetFaults({ ...target, submit })).toEqual([])
    }
  })

  test('must have 120 bits', () => {
    const target = (length: number) => ({ ...OPAQUE, idempotency: { header: 'K', format: { kind: 'hex', length } } })
    expect(targetFaults(target(30))).toEqual([])
    expectOneFault(target(29), 'idempotency.format.length', /29 hex characters are 116 bits.*at least 30/)
  })

  test('has a length of its own only where it is hex', () => {
    const target = { ...OPAQUE, idempotency: { header: 'K', format: { kind: 'uuid', length: 20 } } }
    expectOneFault(target, 'idempotency.format.length', /is for hex only/)
  })

  test('must be there where it is read', () => {
    expectOneFault({ ...OPAQUE, lookup: LOOKUP }, 'lookup.url', /reads \$key, and the target has none/)
  })
})

describe('$env', () => {
  const secret = '{% $env.TOKEN %}'
  test.each([
    ['submit.url', { ...OPAQUE, submit: { url: `https://api.example.com/${secret}` } }],
    ['submit.body.a[0]', { ...OPAQUE, submit: { ...SUBMIT, body: { a: [secret] } } }],
    ['submit.form.a', { ...OPAQUE, submit: { ...SUBMIT, form: { a: secret } } }],
    ['submit.text', { ...OPAQUE, submit: { ...SUBMIT, text: secret } }],
    ['taskId', { ...OPAQUE, taskId: secret }],
    ['outcomes[0].when', { ...OPAQUE, outcomes: [{ when: secret, is: 'accepted' }] }],
    ['lookup.url', { ...KEYED, lookup: { ...LOOKUP, url: `${LOOKUP.url}&t=${secret}` } }],
  ])('is refused in %s', (path, target) => {
    expectOneFault(target, path, /\$env is allowed in headers only/)
  })

  test.each(['key', 'payload.id'])('is refused in a submit header that also reads $%s', (name) => {
    const headers = { 'x-sign': `{% $env.TOKEN & $${name} %}` }
    expectOneFault({ ...KEYED, submit: { ...SUBMIT, headers } }, 'submit.headers.x-sign', /mixes \$env with \$/)
  })

  test('is allowed in any header beside', () => {
    const headers = { authorization: "{% 'Bearer ' & $env.TOKEN %}" }
    const target = { ...KEYED, submit: { ...SUBMIT, headers }, lookup: { ...LOOKUP, headers } }
    expect(targetFaults({ ...target, cancel: { url: SUBMIT.url, headers } })).toEqual([])
  })
})

describe('expressions', () => {
  test.each([
    ['submit.url', /\$taskId is not there before/, { ...OPAQUE, submit: { url: 'https://a.example/{% $taskId %}' } }],
    ['submit.body', /\$response is not there/, { ...OPAQUE, submit: { ...SUBMIT, body: '{% $response.body %}' } }],
    ['submit.url', /origin/, { ...OPAQUE, submit: { url: 'https://{% $payload.host %}/' } }],
    ['taskId', /is constant text; write an expression/, { ...OPAQUE, taskId: 'response.body.id' }],
    ['exists.ours', /is constant text/, { ...OPAQUE, exists: { ours: true } }],
    ['submit.headers.x', /Unexpected end of expression \(position \d+\)/, withHeader('{% $key & %}')],
    ['submit.headers.Idempotency-Key', /is given twice/, withHeader('1', 'Idempotency-Key')],
    ['submit.headers.Content-Length', /belongs to the transport/, withHeader('1', 'Content-Length')],
  ])('%s is refused: %s', (path, reason, target) => {
    expectOneFault(target, path, reason)
  })

  function withHeader(value: string, name = 'x'): unknown {
    return { ...KEYED, submit: { ...SUBMIT, headers: { [name]: value } } }
  }
})

describe('shape', () => {
  test.each([
    ['submit.timeoutms', /unknown key; did you mean "timeoutMs"/, { ...OPAQUE, submit: { ...SUBMIT, timeoutms: 1 } }],
    ['lookups', /unknown key; did you mean "lookup"/, { ...OPAQUE, lookups: {} }],
    ['submit.timeoutMs', /"soon" is no duration/, { ...OPAQUE, submit: { ...SUBMIT, timeoutMs: 'soon' } }],
    ['submit.timeoutMs', /at least 1 ms, got 0/, { ...OPAQUE, submit: { ...SUBMIT, timeoutMs: 0 } }],
    ['submit.text', /stands beside body/, { ...OPAQUE, submit: { ...SUBMIT, body: 1, text: 'x' } }],
    ['submit.method', /expected an HTTP method/, { ...OPAQUE, submit: { ...SUBMIT, method: 'TRACE' } }],
    ['submit.url', /is required/, { ...OPAQUE, submit: {} }],
    ['submit', /is required \(a section\)/, { taskId: 'none' }],
    ['taskId', /is required: an expression/, { submit: SUBMIT }],
    ['retry.maxAttempts', /expected a number, got "3"/, { ...OPAQUE, retry: { maxAttempts: '3' } }],
    ['retry.maxAttempts', /at least 1, got 0/, { ...OPAQUE, retry: { maxAttempts: 0 } }],
    ['limits.rate', /expected a rate as in "10\/s"/, { ...OPAQUE, limits: { rate: '10 per s' } }],
    ['limits.rate', /per: is required/, { ...OPAQUE, limits: { rate: { count: 1 } } }],
    ['limits.bucket', /expected text, got 3/, { ...OPAQUE, limits: { bucket: 3 } }],
    ['limits.bucket', /buckets names no "account"; there are none/, { ...OPAQUE, limits: { bucket: 'account' } }],
    ['rateLimit.scope', /names none; add limits.bucket/, { ...OPAQUE, rateLimit: { scope: 'bucket' } }],
    ['rateLimit.scope', /did you mean "target"/, { ...OPAQUE, rateLimit: { scope: 'targets' } }],
    ['rateLimit.maxWaitMs', /"soon" is no duration/, { ...OPAQUE, rateLimit: { maxWaitMs: 'soon' } }],
    ['rateLimit.headers[0]', /unknown unit epochs; did you mean "epoch-s"/, waits({ headers: ['X-Reset epochs'] })],
    ['rateLimit.headers[0]', /expected a header's name/, waits({ headers: ['X-Reset: 5'] })],
    ['rateLimit.headers[1]', /expected a header's name/, waits({ headers: ['Retry-After', 'X-Reset epoch s'] })],
    ['rateLimit.signs[0]', /expected a header as in/, waits({ signs: ['no header'] })],
    ['success', /expected a list, got 200/, { ...OPAQUE, success: 200 }],
    ['outcomes[0].is', /did you mean "accepted"/, { ...OPAQUE, outcomes: [{ when: '{% true %}', is: 'acepted' }] }],
    ['idempotency.clientId', /expected true or false, got "yes"/, { ...OPAQUE, idempotency: { clientId: 'yes' } }],
    ['idempotency.format.kind', /"uuid", "hex", "sf-string"/, { ...OPAQUE, idempotency: { format: 'guid' } }],
    ['submit.headers.a b', /name of an HTTP header/, { ...OPAQUE, submit: { ...SUBMIT, headers: { 'a b': 1 } } }],
    ['submit.body', /expected JSON, got a function/, { ...OPAQUE, submit: { ...SUBMIT, body: () => 1 } }],
  ])('%s is refused: %s', (path, reason, target) => {
    expectOneFault(target, path, reason)
  })

  function waits(rateLimit: object): unknown {
    return { ...OPAQUE, rateLimit }
  }

  test('a bucket is found by its name, and a slip of the pen is told', () => {
    const named = (bucket: string) => ({ ...OPAQUE, limits: { bucket } })
    const buckets = { account: { rate: '10/s' }, other: { concurrency: 3 } }
    expect(
      faultsOf({ buckets, targets: { fine: named('account'), wrong: named('acount'), far: named('xyz') } }),
    ).toEqual([
      { path: 'targets.wrong.limits.bucket', message: 'buckets names no "acount"; did you mean "account"?' },
      { path: 'targets.far.limits.bucket', message: 'buckets names no "xyz"; known are account, other' },
    ])
    const faulty = { 'no name': {}, rates: { rates: '1/s' }, many: { concurrency: 0 } }
    expect(faultsOf({ buckets: faulty, targets: {} }).map(({ path }) => path)).toEqual([
      'buckets.no name',
      'buckets.rates.rates',
      'buckets.many.concurrency',
    ])
  })

  test('is judged for the whole config at once, beside what is unsafe', () => {
    const faults = faultsOf({
      stor: 'x',
      worker: { leaseMs: 20_000, concurrency: 0 },
      targets: {
        'no name': OPAQUE,
        list: [],
        shape: { ...KEYED, submit: { ...SUBMIT, timeoutms: 1 }, dedupe: 'maybe', recovery: ['replay'] },
        unsafe: { ...KEYED, lookup: { ...LOOKUP, missMeans: 'absent', url: 'https://a.example/{% $nope %}' } },
      },
    })
    expect(faults.map(({ path }) => path)).toEqual([
      'worker.concurrency',
      'stor',
      'targets.no name',
      'targets.list',
      'targets.shape.submit.timeoutms',
      'targets.shape.dedupe',
      'targets.shape.recovery',
      'targets.unsafe.lookup.url',
      'targets.unsafe.lookup.missMeans',
    ])
  })
})
