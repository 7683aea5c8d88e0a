import { describe, expect, test } from 'vitest'
import { compileTemplate, compileTemplateValue, compileUrl, type ExpressionScope } from '../../src/config/expression.ts'
import { hasCode } from '../../src/core/errors.ts'

function value(source: string, scope: ExpressionScope = {}): unknown {
  return compileTemplate(source).evaluate(scope)
}

function errorOf(act: () => unknown): Error {
  try {
    act()
  } catch (error) {
    return error as Error
  }
  throw new Error('nothing was thrown')
}

function expectRenderFailed(act: () => unknown, message: RegExp): void {
  const error = errorOf(act)
  expect(error.message).toMatch(message)
  expect(hasCode(error, 'RENDER_FAILED')).toBe(true)
}

function expectRefused(source: string, message: RegExp): void {
  const error = errorOf(() => compileTemplate(source))
  expect(error.message).toMatch(message)
  expect(hasCode(error, 'CONFIG_INVALID')).toBe(true)
}

describe('a template', () => {
  test('without an expression is its own text', () => {
    const template = compileTemplate('plain 100%')
    expect(template.isConstant).toBe(true)
    expect(template.evaluate({})).toBe('plain 100%')
  })

  test('that is one expression yields the value with its type', () => {
    expect(value('{% $payload.n %}', { payload: { n: 3 } })).toBe(3)
    expect(value('{% $payload.list %}', { payload: { list: [1] } })).toEqual([1])
    expect(value('{% $response.status = 409 %}', { response: { status: 409, headers: {}, body: null } })).toBe(true)
    expect(value('{% $payload.missing %}', { payload: {} })).toBeUndefined()
  })

  test('with text around its expressions is put together as text', () => {
    const scope = { payload: { n: 3, ok: true, o: { a: [1] } }, key: 'k' }
    expect(value('{% $key %}-{% $payload.n %}-{% $payload.ok %}-{% $payload.o %}', scope)).toBe('k-3-true-{"a":[1]}')
  })

  test.each([undefined, null])('refuses %j inside a text: a missing field never becomes ""', (missing) => {
    expectRenderFailed(
      () => value('id-{% $payload.id %}', { payload: { id: missing } }),
      /\$payload\.id .* yields nothing/,
    )
  })

  test('takes "%}" within a string of the expression for text', () => {
    expect(value("{% '%}' %} and {% '{%' %}")).toBe('%} and {%')
  })

  test('names its variables and environment variables', () => {
    const template = compileTemplate('{% $payload.items[id = $key] %} {% $env.TOKEN & $env.`OTHER` %}')
    expect([...template.variables].sort()).toEqual(['env', 'key', 'payload'])
    expect([...template.envNames].sort()).toEqual(['OTHER', 'TOKEN'])
  })

  test('answers $now() and $millis() with the instant it is given', () => {
    expect(value("{% $now() %} {% $millis() %} {% $now('[Y]') %}", { now: 0 })).toBe('1970-01-01T00:00:00.000Z 0 1970')
  })

  test('yields plain JSON, fresh, with no mark of JSONata left', () => {
    const payload = { items: [{ id: 1 }, { id: 2 }] }
    const whole = value('{% $payload %}', { payload }) as typeof payload
    expect(whole).toEqual(payload)
    expect(whole.items).not.toBe(payload.items)
    const ids = value('{% $payload.items.id %}', { payload })
    expect(Object.getOwnPropertyNames(ids)).toEqual(['0', '1', 'length'])
    const made = value("{% {'a': 1} %}")
    expect(Object.getPrototypeOf(made)).toBe(Object.prototype)
  })

  test('keeps a field named __proto__ a field', () => {
    const copy = value('{% $payload %}', { payload: JSON.parse('{"__proto__":{"a":1}}') })
    expect(JSON.stringify(copy)).toBe('{"__proto__":{"a":1}}')
  })
})

describe('compiling refuses', () => {
  test.each([
    ['{% $payload.a + %}', /Unexpected end of expression \(position \d+\)/],
    ['{% $payload', /has a \{% that no %\} closes/],
    ['$payload %}', /has a %\} that no \{% opens/],
    ['{% %}', /\{% %\}/],
    ['{% $paylod.a %}', /\$paylod is not known; did you mean "payload"/],
    ['{% $strin(1) %}', /\$strin is not known; did you mean "string"/],
    ['{% payload.a %}', /payload is a field of nothing; write \$payload/],
    ['{% a.b %}', /a is a field of nothing; begin with a variable, as in \$payload\.a/],
    ['{% * %}', /\* stands for fields of nothing/],
    ['{% $ %}', /\$ stands for an input that there is not/],
    ['{% $$.a %}', /\$\$ stands for an input that there is not/],
    ['{% $env %}', /\$env must be followed by a plain name/],
    ["{% $lookup($env, 'A') %}", /\$env must be followed by a plain name/],
    ['{% $env[0].A %}', /\$env must be followed by a plain name/],
    ['{% $env.* %}', /\$env must be followed by a plain name/],
    ['{% $env.($payload.name) %}', /\$env must be followed by a plain name/],
    ['{% $each($env, function($v){ $v }) %}', /\$env must be followed by a plain name/],
    ["{% $eval('$env') %}", /\$eval is not available/],
    ['{% ($payload := 1; $payload) %}', /\$payload cannot be given another value/],
    ['{% function($env){ $env.A }(1) %}', /\$env cannot be given another value/],
    ['{% ($__evaluate_entry := 1; 2) %}', /\$__evaluate_entry cannot be given another value/],
  ])('%s', (source, message) => {
    expectRefused(source, message)
  })

  test('nothing of what an expression binds for itself', () => {
    const source =
      '{% ($f := function($x, $i){ $x.n * $i }; $map($payload.items, $f) ~> $sum()) & $payload.items@$it#$at.($it.n & $at) %}'
    expect([...compileTemplate(source).variables]).toEqual(['payload'])
    expect(
      value('{% $payload.items[n > 1].{"a": n, "whole": $} %}', { payload: { items: [{ n: 1 }, { n: 2 }] } }),
    ).toEqual({
      a: 2,
      whole: { n: 2 },
    })
  })
})

describe('evaluating stays within bounds', () => {
  test('of depth', () => {
    const source = '{% ($f := function($n){ $n = 0 ? 0 : 1 + $f($n - 1) }; $f(100000)) %}'
    expectRenderFailed(() => value(source), /nests deeper than 500 levels/)
  })

  test('of steps', () => {
    expectRenderFailed(() => value('{% ($f := function($n){ $f($n + 1) }; $f(0)) %}'), /more than 200000 steps/)
  })

  test('of JSON: a function is refused', () => {
    expectRenderFailed(
      () => value('{% $payload ~> $string ~> function($x){ function(){ $x } } %}', { payload: 1 }),
      /a function/,
    )
    expectRenderFailed(() => value('{% {"f": $sum} %}'), /yields a function/)
  })

  test('of what the environment may show: only names that are spelled out, and never in a message', () => {
    const env = { TOKEN: 'hunter2', OTHER: 'other' }
    expect(value("{% 'Bearer ' & $env.TOKEN %}", { env })).toBe('Bearer hunter2')
    const error = errorOf(() => value('{% $number($env.TOKEN) %}', { env }))
    expect(error.message).toMatch(/JSONata error D3030/)
    expect(JSON.stringify([error.message, error.cause ?? null])).not.toContain('hunter2')
  })

  test('of the scope: neither prototypes nor globals are reached', () => {
    for (const path of ['$payload.constructor', '$payload.__proto__', '$key.length', "$lookup($payload, 'toString')"]) {
      expect(value(`{% ${path} %}`, { payload: {}, key: 'k' })).toBeUndefined()
    }
  })
})

describe('a template value', () => {
  test('evaluates strings at any depth to a fresh value', () => {
    const template = compileTemplateValue({ a: ['{% $payload.x %}', 1, null], b: { c: 'id-{% $key %}' }, d: true })
    expect(template.evaluate({ payload: { x: { y: 1 } }, key: 'k' })).toEqual({
      a: [{ y: 1 }, 1, null],
      b: { c: 'id-k' },
      d: true,
    })
    expect([...template.variables].sort()).toEqual(['key', 'payload'])
    expect(template.isConstant).toBe(false)
  })

  test('leaves out members and items that yield nothing', () => {
    const template = compileTemplateValue({ a: '{% $payload.x %}', b: ['{% $payload.x %}', '{% $payload.y %}'] })
    expect(template.evaluate({ payload: { y: null } })).toEqual({ b: [null] })
  })

  test('names the place of a faulty expression', () => {
    expect(() => compileTemplateValue({ a: [{ b: '{% $nope %}' }] })).toThrow(/^a\[0\]\.b: /)
    expect(() => compileTemplateValue({ '{% $key %}': 1 })).toThrow(/field name .* holds an expression/)
  })
})

describe('a URL', () => {
  const url = (source: string, payload: unknown): string => compileUrl(source).evaluate({ payload })

  test('has its parts percent-encoded', () => {
    expect(url('https://a.example/x/{% $payload %}?q={% $payload %}', 'a/b?c#d&é ..')).toBe(
      'https://a.example/x/a%2Fb%3Fc%23d%26%C3%A9%20..?q=a%2Fb%3Fc%23d%26%C3%A9%20..',
    )
    expect(url('http://[::1]:8080?n={% $payload %}', 7)).toBe('http://[::1]:8080?n=7')
  })

  test.each([
    ['/x/{% $payload %}', '..'],
    ['/x/{% $payload %}/y', '.'],
    ['/x/.{% $payload %}?q=1', '.'],
    ['/x/%2e{% $payload %}', '.'],
    ['/x/{% $payload %}{% $payload %}', '.'],
  ])('never climbs: %s with %j', (path, payload) => {
    expectRenderFailed(() => url(`https://a.example${path}`, payload), /path segment "\." or "\.\."/)
  })

  test.each([undefined, null, ''])('refuses %j in its path, naming the expression', (payload) => {
    expectRenderFailed(() => url('https://a.example/x/{% $payload %}', payload), /\{% \$payload %\} yields/)
  })

  test('may have an empty text in its query, but not nothing', () => {
    expect(url('https://a.example/?q={% $payload %}', '')).toBe('https://a.example/?q=')
    expectRenderFailed(() => url('https://a.example/?q={% $payload %}', undefined), /yields nothing, in a URL/)
  })

  test.each([{ a: 1 }, [1], 'a\ud800'])('refuses %j as a part', (payload) => {
    expectRenderFailed(() => url('https://a.example/{% $payload %}', payload), /in a URL/)
  })

  test.each([
    ['{% $payload %}', /constant http:\/\/ or https:\/\/ origin/],
    ['https://{% $payload %}/x', /constant http:\/\/ or https:\/\/ origin/],
    ['https://a.example{% $payload %}', /an expression in its origin/],
    ['https://a.example:{% $payload %}/', /an expression in its origin/],
    ['ftp://a.example/', /constant http:\/\/ or https:\/\/ origin/],
    ['/x', /constant http:\/\/ or https:\/\/ origin/],
    ['https://user:secret@a.example/', /must not hold a user name or password/],
    ['https://a.example/a b', /a space/],
    ['https://a.example/x#y', /a "#"/],
    ['https://a.example\\x/', /constant http/],
    ['https://a.example/../x', /path segment/],
    ['https://a.example/x/%2E%2e/', /path segment/],
    ['https://a b/', /a space|valid host/],
    ['https://%zz/', /no valid host/],
  ])('is refused by the loader as %s', (source, message) => {
    const error = errorOf(() => compileUrl(source))
    expect(error.message).toMatch(message)
    expect(error.message).not.toContain('secret')
    expect(hasCode(error, 'CONFIG_INVALID')).toBe(true)
  })
})
