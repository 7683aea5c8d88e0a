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
