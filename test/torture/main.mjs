// `npm run torture`: main.ts, by a loader that leaves native packages alone under every Node.
import { createJiti } from 'jiti'

await createJiti(import.meta.url).import('./main.ts')
