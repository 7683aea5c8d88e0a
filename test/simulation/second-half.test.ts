// The other half of the schedules.
import { HALF, proveSchedules } from './prove.ts'

proveSchedules(HALF + 1, HALF)
