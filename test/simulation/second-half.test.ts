// The other half of the schedules.
import { proveSchedules } from './prove.ts'

proveSchedules(1001, 1000)
