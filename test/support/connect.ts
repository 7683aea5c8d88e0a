// A node-postgres client beside the product: somebody else on the same server.
import pg from 'pg'
import { onTestFinished } from 'vitest'

/** To the server of a store, or of any URL; it ends with the test. */
export async function connect(location: string, options: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: location.split('?')[0], ...options })
  // Some tests have the server end it.
  client.on('error', () => {})
  await client.connect()
  onTestFinished(() => client.end().catch(() => {}))
  return client
}
