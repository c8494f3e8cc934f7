// `npm run bench:files`: what the upload and download of a file cost, compared with the AWS SDK on the same S3 server
// and nginx on the same disk, in turn on the same core in one run. Writes bench/files.md. `--quick` does one small
// round, which proves and writes nothing; `--profile DIR` writes CPU profiles of the gateways; `--only WORD` selects
// cases by name.

import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { s3Yaml, startS3 } from '../test/fixtures/s3-server.ts'
import { startFileNginx, startTollgate } from './contestants.ts'
import { casesOf, smallUploads } from './file-cases.ts'
import type { Case, Ground } from './file-cases.ts'
import { callerOf } from './file-measures.ts'
import type { Sample } from './file-measures.ts'
import { folder, run, say, startScript } from './ground.ts'
import { isPinned, otherCores, proxyCore } from './processes.ts'
import { startRedis } from './redis.ts'
import { median } from './report.ts'

const { values: flags } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    profile: { type: 'string' },
    only: { type: 'string', default: '' },
    rounds: { type: 'string' },
  },
})
const plan = flags.quick
  ? { rounds: 1, mib: 64, count: 200, rows: 1000 }
  : { rounds: 5, mib: 256, count: 2000, rows: 10_000 }
const rounds = Number(flags.rounds ?? plan.rounds)

const undo: (() => unknown)[] = []

const MiB = 2 ** 20

async function startGround(): Promise<Ground> {
  chmodSync(folder, 0o755)
  const [diskFolder, s3Folder] = ['disk', 's3'].map((name) => join(folder, name)) as [
    string,
    string,
  ]
  for (const one of [diskFolder, s3Folder]) mkdirSync(one)
  const place = await startS3({ teardown: (end) => undo.push(end) })
  if (isPinned) execFileSync('taskset', ['-a', '-c', '-p', otherCores, String(place.pid)])
  const redis = await startRedis(folder)
  const more = 'plugins: { files: { max_bytes: 2GiB } }\n'
  const ground = { backendPort: 1, files: 20_000 }
  const onDisk = { ...ground, folder: diskFolder, more }
  const onS3 = {
    ...ground,
    folder: s3Folder,
    more: `${more}store: ${JSON.stringify({ s3: s3Yaml(place) })}\n`,
  }
  return {
    disk: await callerOf(await startTollgate(onDisk, redis, flags.profile)),
    s3: await callerOf(await startTollgate(onS3, redis, flags.profile)),
    nginx: await startFileNginx(folder),
    sdk: startScript('sdk.ts', proxyCore),
    load: startScript('file-load.ts'),
    redis,
    place,
    folder,
    files: {
      large: written('large', randomBytes(plan.mib * MiB)),
      text: written('text', Buffer.alloc(plan.mib * MiB, 'What a file may hold, line by line.\n')),
      middle: written('middle', randomBytes((plan.mib * MiB) / 4)),
      mib: written('mib', randomBytes(MiB)),
    },
    mib: plan.mib,
    count: plan.count,
  }
}

function written(name: string, content: Buffer): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

type Found = ReadonlyMap<string, readonly Sample[]>

/** The contestants take turns, so that changes of the machine's speed affect all of them. */
async function inRounds({ title, rows }: Case): Promise<Found> {
  const found = new Map<string, Sample[]>(rows.map(([name]) => [name, []]))
  for (let round = 1; round <= rounds; round++) {
    say(`${title}: round ${round} of ${rounds}`)
    for (const [name, run] of rows) found.get(name)?.push(await run())
  }
  return found
}

const speed = ({ units, ms }: Sample) => (units * 1000) / ms

function ratiosOf(found: Found, first: string, name: string): readonly number[] {
  const base = (found.get(first) ?? []).map(speed)
  return (found.get(name) ?? []).map((sample, round) => speed(sample) / (base[round] ?? NaN))
}

function table({ title, unit, rows, target }: Case, found: Found): string {
  const first = rows[0]?.[0] ?? ''
  const cpu = unit === 'MiB' ? 'CPU ms a MiB' : 'CPU µs a request'
  const lines = rows.map(([name]) => {
    const samples = found.get(name) ?? []
    const of = (value: (sample: Sample) => number) => median(samples.map(value))
    const ratios = ratiosOf(found, first, name)
    const spread = `${median(ratios).toFixed(2)} (${Math.min(...ratios).toFixed(2)}–${Math.max(...ratios).toFixed(2)})`
    const cost = of(({ cpuMs, units }) => cpuMs / units)
    const grown = of(({ grownMiB }) => grownMiB)
    const scripts = of((one) => (one.scripts > 0 ? one.scripts / one.requests : NaN))
    const commands = of((one) => one.commands / one.requests)
    return `| ${[
      name,
      of(speed).toFixed(0),
      name === first ? '1' : spread,
      unit === 'MiB' ? cost.toFixed(2) : (cost * 1000).toFixed(0),
      `${(of(({ cpuMs, ms }) => cpuMs / ms) * 100).toFixed(0)} %`,
      Number.isNaN(grown) ? '' : grown.toFixed(0),
      Number.isNaN(scripts) ? '' : `${scripts.toFixed(1)} / ${commands.toFixed(1)}`,
    ].join(' | ')} |`
  })
  const verdict = target && [judged(target, median(ratiosOf(found, first, target.row))), '']
  return [
    `## ${title}`,
    '',
    ...(verdict ?? []),
    `| | ${unit}${unit === 'MiB' ? '' : 's'}/s | to the first | ${cpu} | of its core | RSS growth MiB | Redis scripts / commands |`,
    '|---|---|---|---|---|---|---|',
    ...lines,
    '',
  ].join('\n')
}

function judged({ row, ratio }: NonNullable<Case['target']>, is: number): string {
  return `Target: ${row} at least ${ratio} of the first: ${is.toFixed(2)}, ${is >= ratio ? 'pass' : '**miss**'}.`
}

/** What Redis keeps of one file, measured over many files. */
async function redisBytes(ground: Ground): Promise<number> {
  await smallUploads(ground, ground.disk, { bytes: 1, count: 200 })
  const before = await ground.redis.bytes()
  const warmUps = Math.ceil(plan.rows / 4)
  await smallUploads(ground, ground.disk, { bytes: 1, count: plan.rows })
  return ((await ground.redis.bytes()) - before) / (plan.rows + warmUps)
}

async function main(): Promise<void> {
  const ground = await startGround()
  const tables: string[] = []
  for (const one of casesOf(ground).filter(({ title }) => title.includes(flags.only))) {
    tables.push(table(one, await inRounds(one)))
    process.stdout.write(`${tables.at(-1)}\n`)
  }
  const head = `# Files

By \`npm run bench:files\`: medians of ${rounds} rounds, taken by turns, with the least and the most of the ratios. What is
measured has a core of its own, the client (curl), the S3 server (SeaweedFS) and Redis share the others: where a core is
not nearly 100 % busy, these are what limits. A fresh gateway a round, warmed up by a quarter of the size; growth is the
peak above a process that has served one MiB. Ratios are to be compared, not milliseconds.
`
  const kept = flags.only
    ? ''
    : `## Redis\n\n${(await redisBytes(ground)).toFixed(0)} bytes a file of ${plan.rows}.\n`
  const text = [head, ...tables, kept].join('\n')
  process.stdout.write(kept)
  const isWhole = !flags.quick && !flags.only && !flags.profile
  if (isWhole) writeFileSync(join(import.meta.dirname, 'files.md'), text)
}

await run(main, async () => {
  for (const end of undo.reverse()) await end()
})
