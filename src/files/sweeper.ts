// Cleans up in the background: uploads that died, files that expired, objects whose deletion failed, files of deleted
// sessions. Every gateway has a sweeper. It takes what is due for a time, so that one gateway does the work; when that
// gateway fails or dies, the work becomes due again.

import type { Redis } from 'ioredis'
import { asked } from '../redis/asked.ts'
import { keys } from '../redis/redis.ts'
import { numberAt, textAt } from '../redis/scripts.ts'
import type { ObjectStore } from '../store/store.ts'
import { announce, lookAgainAfterMs, parseAnnouncement } from './due.ts'
import type { FileScripts } from './library.ts'
import { createTasks } from './tasks.ts'
import type { TaskProblem } from './tasks.ts'

export interface Sweeper {
  /** One round now. Resolves with how many things it has done; rejects where Redis can't be asked. */
  sweep(): Promise<number>
  /** Begins no further round; a round under way ends soon, and what it has taken becomes due again. */
  close(): Promise<void>
}

export interface SweeperOptions {
  readonly redis: Redis
  readonly scripts: FileScripts
  readonly store: Pick<ObjectStore, 'remove' | 'abandon'>
  /** 0: rounds only by `sweep()`. */
  readonly everyMs?: number
  /** How long taking a thing keeps other sweepers away; a deletion that fails waits twice as long each time. */
  readonly takenMs?: number
  /** A deletion that takes longer has failed. */
  readonly storeMs?: number
  /** How long after an upload that died its object is looked for once more. */
  readonly lookAgainMs?: number
  onProblem(problem: TaskProblem): void
}

const mostAccounts = 1000
const accountsAtOnce = 4
const takenAtOnce = 16
const longestWaitMs = 3_600_000

export function createSweeper({
  everyMs = 30_000,
  takenMs = 60_000,
  storeMs = 20_000,
  lookAgainMs = lookAgainAfterMs,
  ...rest
}: SweeperOptions): Sweeper {
  const closing = new AbortController()
  const round: Round = { ...rest, takenMs, storeMs, lookAgainMs, signal: closing.signal }
  let timer: NodeJS.Timeout | undefined
  let running: Promise<unknown> = Promise.resolve()

  const sweep = async () => {
    const sweeping = sweepAccounts(round)
    running = sweeping.catch(() => undefined) // the caller gets the error
    return await sweeping
  }
  const schedule = () => {
    // Gateways that were started together must not march in step.
    const waitMs = everyMs * (0.75 + Math.random() / 2)
    timer = setTimeout(() => void tick(), waitMs).unref()
  }
  const tick = async () => {
    try {
      await sweep()
    } catch (error) {
      rest.onProblem({ what: 'a round', error })
    }
    if (!closing.signal.aborted) schedule()
  }
  if (everyMs > 0) schedule()
  return {
    sweep,
    async close() {
      closing.abort()
      clearTimeout(timer)
      await running
    },
  }
}

interface Round extends Omit<Required<SweeperOptions>, 'everyMs'> {
  readonly signal: AbortSignal
}

async function sweepAccounts(round: Round): Promise<number> {
  const accounts = await announcedAccounts(round.redis)
  const work = createTasks(round)
  let done = 0
  const next = async () => {
    for (let one = accounts.pop(); one && !round.signal.aborted; one = accounts.pop()) {
      done += await sweepAccount(round, one, work)
    }
  }
  await Promise.all(Array.from({ length: accountsAtOnce }, next))
  return done
}

interface Announced {
  readonly ref: string
  readonly minutes: readonly number[]
}

/** In random order, so that several sweepers do not work on the same account. */
async function announcedAccounts(redis: Redis): Promise<Announced[]> {
  const [seconds] = await asked(redis.time())
  const until = Number(seconds) * 1000
  const members = await asked(
    redis.zrangebyscore(keys.dueAccounts, '-inf', until, 'LIMIT', 0, mostAccounts),
  )
  const broken = members.filter((member) => !parseAnnouncement(member))
  if (broken.length > 0) await asked(redis.zrem(keys.dueAccounts, ...broken))
  const byRef = Map.groupBy(
    members.flatMap((member) => parseAnnouncement(member) ?? []),
    ({ ref }) => ref,
  )
  return [...byRef]
    .map(([ref, all]) => ({ ref, minutes: all.map(({ minute }) => minute) }))
    .toSorted(() => Math.random() - 0.5)
}

/** Takes batches as long as something is done, because an expiry makes an object due. */
async function sweepAccount(
  round: Round,
  { ref, minutes }: Announced,
  work: (ref: string, member: string) => Promise<boolean>,
): Promise<number> {
  let done = 0
  while (!round.signal.aborted) {
    const members = await takeDue(round, ref)
    const were = await Promise.all(members.map((member) => work(ref, member)))
    const count = were.filter(Boolean).length
    done += count
    if (count === 0) break
  }
  await withdraw(round, { ref, minutes })
  return done
}

async function takeDue({ scripts, takenMs }: Round, ref: string): Promise<readonly string[]> {
  const limits = [`${takenAtOnce}`, `${takenMs}`, `${longestWaitMs}`]
  const reply = await scripts.run('claim', [keys.due(ref)], limits)
  return reply.values.slice(2).map((_member, at) => textAt(reply, 2 + at))
}

const mostLooks = 5

/** Removes announcements that are no longer needed, and makes the next one. */
async function withdraw({ redis, scripts }: Round, { ref, minutes }: Announced): Promise<void> {
  const latest = Math.max(...minutes)
  const names = [keys.storage(ref), keys.due(ref)]
  let announcedMinute = 0
  for (let looks = 0; looks < mostLooks; looks++) {
    const reply = await scripts.run('close', names, [`${latest}`, `${announcedMinute}`])
    if (reply.word === 'announce') {
      announcedMinute = numberAt(reply, 2)
      await announce(redis, { ref, minute: announcedMinute })
      continue
    }
    const needless = reply.word === 'ok' ? minutes : minutes.filter((minute) => minute < latest)
    const members = needless.map((minute) => `${minute}:${ref}`)
    if (members.length > 0) await asked(redis.zrem(keys.dueAccounts, ...members))
    return
  }
}
