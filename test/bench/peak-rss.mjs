// Preloaded into a process that is measured: tells the peak of its resident set, in KiB, on descriptor 3 as it exits. Not by
// getrusage: there a process begins with the peak of the one that started it.
import { readFileSync, writeSync } from 'node:fs'

process.on('exit', () => {
  const [, peak] = /^VmHWM:\s+(\d+) kB$/m.exec(readFileSync('/proc/self/status', 'utf8'))
  writeSync(3, peak)
})
