// A workspace as the crash tests want it: workers that go on, are killed, and are asked about.
import type { Kind } from '../../fixtures/api/ledger.ts'
import type { RawConfig } from './api.ts'
import { countProof } from './proof.ts'
import { type Ended, ended, linesOf, startCli, workspace } from './run-cli.ts'

interface RunningCli {
  readonly pid: number
  readonly ended: Promise<Ended>
  kill(signal: NodeJS.Signals): void
}

/** A line of `list`, of one of the sample API's targets. */
export interface Listed {
  readonly requestId: number
  readonly target: Kind
  readonly state: string
  readonly taskId: string | null
  readonly reason: string | null
}

export interface Shop {
  readonly folder: string
  write(name: string, content: string): string
  start(...args: string[]): RunningCli
  run(...args: string[]): Promise<Ended>
  json<T>(...args: string[]): Promise<T>
  lines<T>(...args: string[]): Promise<T[]>
}

export function openShop(config: RawConfig): Shop {
  const { folder, cli, write } = workspace(config)
  return {
    folder,
    write,
    start: (...args) => {
      const child = startCli(folder, args)
      const kill = (signal: NodeJS.Signals) => {
        if (child.kill(signal) && signal === 'SIGKILL') countProof('kills')
      }
      return { pid: child.pid ?? 0, ended: ended(child), kill }
    },
    run: (...args) => cli(args),
    json: async (...args) => JSON.parse((await cli([...args, '--json'])).stdout),
    lines: async <T>(...args: string[]) => linesOf((await cli([...args, '--json'])).stdout) as T[],
  }
}
