// The requests that are measured with: an object of about 300 bytes, each another.

export interface BenchPayload {
  readonly order: number
  readonly [name: string]: unknown
}

const NOTE = 'x'.repeat(120)

export function payloadOf(order: number): BenchPayload {
  return {
    order,
    customer: `customer-${order % 5000}`,
    title: `Render of scene ${order}`,
    options: { width: 1920, height: 1080, codec: 'h264', audio: true },
    note: NOTE,
  }
}

/** A target as data, whose API is at `origin`. */
export function targetOf(origin: string): Record<string, unknown> {
  return {
    submit: { url: `${origin}/renders` },
    idempotency: { header: 'Idempotency-Key', rememberedFor: '24h' },
    taskId: '{% $response.body.id %}',
  }
}

/** One such target, `render`. @param more fields that it has too. */
export function configOf(store: string, origin: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return { store, targets: { render: { ...targetOf(origin), ...more } } }
}
