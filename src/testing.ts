// Second entry, `onceish/testing`: what users need to test their own targets for the crash between the call and the record.
export { CRASH_POINTS, type Crash, type CrashPoint } from './testing/crash.ts'
export {
  type FakeAnswer,
  type FakeApi,
  type FakeApiOptions,
  type FakeCall,
  type FakeEffect,
  type FakeFault,
  startFakeApi,
} from './testing/fake-api.ts'
export { openForTest, type TestSettings } from './testing/open-for-test.ts'
export { type VirtualClock, virtualClock } from './testing/virtual-clock.ts'
