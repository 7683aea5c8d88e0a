import { afterEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { readCodeTarget } from '../../src/config/code-target-schema.ts'
import type { TargetDefinition } from '../../src/config/target-definition.ts'
import { createTargetRegistry } from '../../src/target/registry.ts'
import type { TargetRegistry } from '../../src/target/target.ts'
import { definitionOf } from './support/definition.ts'

const open: TargetRegistry[] = []

afterEach(async () => {
  await Promise.all(open.splice(0).map((registry) => registry.close()))
})

function registryOf(...described: TargetDefinition[]): TargetRegistry {
  const registry = createTargetRegistry({ described }, { env: {} })
  open.push(registry)
  return registry
}

describe('the registry of targets', () => {
  const before = definitionOf({ submit: { url: 'http://127.0.0.1:1/v1/jobs' } })
  const present = definitionOf({ submit: { url: 'http://127.0.0.1:1/v2/jobs' } })

  it('has the present targets in order and by name', () => {
    const registry = registryOf(definitionOf({ name: 'b' }), definitionOf({ name: 'a' }))
    expect(registry.targets.map((target) => target.name)).toEqual(['b', 'a'])
    expect(registry.get('a')?.name).toBe('a')
    expect(registry.get('c')).toBeUndefined()
  })

  it('has the present target for its own version and for rows without one', () => {
    const registry = registryOf(present)
    const target = registry.get('transcribe')
    expect(registry.at('transcribe', target?.version ?? '', null)).toBe(target)
    expect(registry.at('transcribe', null, null)).toBe(target)
  })

  it('rebuilds an earlier one from its description, once', () => {
    const [earlier] = registryOf(before).targets
    const registry = registryOf(present)
    expect(earlier?.version).not.toBe(registry.get('transcribe')?.version)
    const rebuilt = registry.at('transcribe', earlier?.version ?? '', earlier?.description ?? null)
    expect(rebuilt).toMatchObject({ version: earlier?.version, summary: 'POST http://127.0.0.1:1/v1/jobs' })
    expect(registry.at('transcribe', earlier?.version ?? '', earlier?.description ?? null)).toBe(rebuilt)
  })

  it('rebuilds a target that the config names no more', () => {
    const [gone] = registryOf(before).targets
    expect(registryOf().at('transcribe', gone?.version ?? '', gone?.description ?? null)?.summary).toBe(gone?.summary)
  })

  it('reads what releases before this one have stored of a target in code', () => {
    const coded = (maxReplays: number) => {
      const policy = { idempotency: { rememberedFor: '24h', maxReplays }, ordering: { onDead: 'continue' } }
      const calls = { invoke: () => ({ taskId: 't' }), lookup: () => ({ kind: 'absent' }), cancel: () => {} }
      const read = readCodeTarget({ name: 'code', version: '1', payload: z.unknown(), policy, ...calls })
      if ('error' in read) throw read.error
      return read.definition
    }
    const [then] = createTargetRegistry({ described: [], coded: [coded(5)] }, { env: {} }).targets
    const { policy, ...stored } = JSON.parse(then?.description ?? '')
    const { onDead, rateLimit: _1, breaker: _2, ...written } = then?.policy ?? {}
    const before = JSON.stringify({ ...stored, policy: { ...written, ordering: { onDead } } })
    const now = createTargetRegistry({ described: [], coded: [coded(3)] }, { env: {} })
    expect(Object.keys(policy)).toEqual(['lookup', 'canCancel', 'tracking'])
    expect(now.at('code', '1-of-before', before)?.policy).toEqual(then?.policy)
    expect(now.at('code', '1-of-then', then?.description ?? null)?.policy).toEqual(then?.policy)
    expect(now.get('code')?.policy.key?.maxReplays).toBe(3)
  })

  it.each([
    ['no description', null],
    ['a description that is no JSON', '{'],
    ['a description of another target', JSON.stringify(definitionOf({ name: 'other' }))],
    ['a description of another release', '{"name":"transcribe"}'],
  ])('has none where there is %s', (_, description) => {
    expect(registryOf(present).at('transcribe', 'v0', description)).toBeUndefined()
  })
})
