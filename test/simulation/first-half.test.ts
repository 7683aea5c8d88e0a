// The protocol by seeds: whatever is killed, lost, late or turned back, what was promised holds. `npm run simulate` runs more.
import { HALF, proveSchedules } from './prove.ts'

proveSchedules(1, HALF)
