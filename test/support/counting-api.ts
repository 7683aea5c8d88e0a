// The counting API of `onceish/testing`, closed with the test that it is opened in.
import { onTestFinished } from 'vitest'
import { type FakeApi, type FakeApiOptions, startFakeApi } from '../../src/testing.ts'

export async function openFakeApi(options: FakeApiOptions): Promise<FakeApi> {
  const api = await startFakeApi(options)
  onTestFinished(() => api.close())
  return api
}
