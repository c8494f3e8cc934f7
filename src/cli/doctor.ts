// tollgate doctor: checks that everything the gateway needs is there and works: the file, Redis, the store, the
// identity provider, each target of each model. Prints one line for each check when that check ends. Removes whatever
// it has written.

import type { Loaded } from '../config/load.ts'
import { formatPath } from '../config/problem.ts'
import { loadFile, tellProblems } from './check.ts'
import { CliError, exit, json, paint, plural, tell, usageError } from './command.ts'
import type { Call, Colour, Command } from './command.ts'
import type { Examination, Finding, Verdict } from './doctor/examination.ts'
import { parseSeconds } from './values.ts'

export const doctor: Command = {
  name: 'doctor',
  words: ['FILE?'],
  summary:
    'check, then try Redis, the store, the identity provider and each target; this costs some tokens at each target',
  options: {
    timeout: { value: 'TIME', help: 'time limit of each check; if not given, 10s' },
    json,
  },
  isLocal: true,
  async run(call) {
    const seconds = parseSeconds(call.text('timeout') ?? '10s')
    if (seconds < 1) throw usageError('--timeout takes 1s or more.')
    const { file, loaded } = await loadFile(call)
    if ('problems' in loaded) return tellProblems(call, file, loaded)
    const { Examination } = await import('./doctor/examination.ts')
    const { secretsOf } = await import('../secrets.ts')
    const examination = new Examination({
      signal: call.io.signal ?? new AbortController().signal,
      limitMs: seconds * 1000,
      secrets: secretsOf(loaded.config),
      tell: (finding) => void (call.isJson || call.io.stdout.write(lineOf(call, finding))),
    })
    await examine(loaded, { file, examination, call })
    return conclude(call, file, examination.findings)
  },
}

interface Examining {
  readonly file: string
  readonly examination: Examination
  readonly call: Call
}

async function examine(
  { config, warnings }: Extract<Loaded, { config: unknown }>,
  { file, examination, call }: Examining,
): Promise<void> {
  const [own, { examineRedis }, { examineStore }, { examineProvider }, ofTargets] =
    await Promise.all([
      import('../accounts/api-key.ts'),
      import('./doctor/redis.ts'),
      import('./doctor/store.ts'),
      import('./doctor/provider.ts'),
      import('./doctor/targets.ts'),
    ])
  try {
    await examination.check(file, async () => ({ verdict: 'ok', detail: '0 problems' }))
    for (const { line, column, path, message } of warnings) {
      const place = `${file}:${line}:${column}`
      const detail = `${formatPath(path)}: ${message}`
      await examination.check(place, async () => ({ verdict: 'warn', detail }))
    }
    const { pepper } = own.accountSettings.of(config)
    await examineRedis({ ...config, pepper }, examination)
    await examineStore(config.store, examination)
    await examineProvider(config, examination)
    await ofTargets.examineTargets(config, examination)
  } catch (error) {
    if (!call.io.signal?.aborted) throw error
    throw new CliError(exit.failed, 'Stopped before every check was done.')
  }
}

const colours: Readonly<Record<Verdict, Colour>> = { ok: 'green', warn: 'yellow', fail: 'red' }

function lineOf(call: Call, { verdict, what, detail }: Finding): string {
  return `${paint(call, colours[verdict], verdict.padEnd(4))}  ${what}: ${detail}\n`
}

function conclude(call: Call, file: string, findings: readonly Finding[]): number {
  const count = (verdict: Verdict) => findings.filter((one) => one.verdict === verdict).length
  const [warnings, failures] = [count('warn'), count('fail')]
  const shown = findings.map(({ verdict, what, detail }) => ({ verdict, what, detail }))
  const words = [plural(findings.length, 'check'), plural(warnings, 'warning')]
  const line = [...words, plural(failures, 'failure')].join(', ')
  const colour = failures > 0 ? 'red' : warnings > 0 ? 'yellow' : 'green'
  const text = `${paint(call, colour, line)}\n`
  tell(call, { file, findings: shown, warnings, failures }, text)
  if (failures === 0) return exit.ok
  return findings.some(({ unreachable }) => unreachable) ? exit.unreachable : exit.failed
}
