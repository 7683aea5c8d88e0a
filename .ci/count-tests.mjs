// Adds up what the runner reported under each version of Node: node .ci/count-tests.mjs FOLDER VERSION...
// The closing line is the sum over all of them. A file that fails without a failing test, and a run that left no report,
// count as one failure each. Skipped tests are failures too.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const [folder, ...versions] = process.argv.slice(2)

function countsOf(version) {
  const path = join(folder, `node-${version}.json`)
  if (!existsSync(path)) return { passed: 0, failed: 1, skipped: 0, note: ': it ended without a report' }
  const report = JSON.parse(readFileSync(path, 'utf8'))
  const broken = report.testResults.filter(
    (file) => file.status === 'failed' && !file.assertionResults.some((test) => test.status === 'failed'),
  )
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + broken.length,
    skipped: report.numPendingTests + report.numTodoTests,
    note: broken.map((file) => `; ${file.name} failed as a whole`).join(''),
  }
}

const runs = versions.map((version) => ({ version, ...countsOf(version) }))
for (const { version, passed, failed, skipped, note } of runs) {
  console.log(`Node ${version}: ${passed} passed, ${failed} failed, ${skipped} skipped${note}`)
}
const sum = (name) => runs.reduce((total, run) => total + run[name], 0)
if (sum('skipped') > 0) console.log(`${sum('skipped')} tests were skipped: none may be`)
console.log(`${sum('passed')} passed, ${sum('failed')} failed`)
process.exit(sum('failed') + sum('skipped') > 0 || runs.some(({ passed }) => passed === 0) ? 1 : 0)
