// What all accounts owe together, for a gauge. The set of debtors is a hint, written when a reply of a script says that
// an account owes something. The amounts are read from the accounts, and an account that owes nothing leaves the set.
// A debtor that is missing in the set (a killed gateway, a Redis that forgot) is found when all accounts are read.

import type { Redis } from '../redis/client.ts'
import { keys } from '../redis/keys.ts'
import { refsWithRests } from './walk.ts'

export type Debtors = ReturnType<typeof createDebtors>

const chunk = 1000
/** Of all accounts. */
const lookedAtOnce = 100
/** How many refs are remembered since the last sum; further ones are in Redis alone. */
const maxNoted = 10_000

export function createDebtors(redis: Redis) {
  const noted = new Set<string>()
  const add = async (refs: readonly string[]) => {
    if (refs.length > 0) await redis.sadd(keys.debtors, ...refs)
  }
  const owedBy = async (refs: readonly string[]) => {
    const read = (ref: string) => redis.hget(keys.account(ref), 'owed')
    return (await Promise.all(refs.map(read))).map(Number)
  }
  const addOwing = async (refs: readonly string[]) => {
    const owed = await owedBy(refs)
    await add(refs.filter((_, i) => owed[i] !== 0))
  }
  const remove = async (refs: readonly string[]) => {
    if (refs.length === 0) return
    await redis.srem(keys.debtors, ...refs)
    // One of them may have been noted by another gateway meanwhile.
    await addOwing(refs)
  }
  return {
    /** A reply said that this account owes something. Never throws; nobody waits for it. */
    note(ref: string): void {
      if (noted.has(ref)) return
      if (noted.size < maxNoted) noted.add(ref)
      // If Redis is away, the next sum writes the ref.
      add([ref]).catch(() => undefined)
    },
    /** What all known debtors owe now. */
    async sum(): Promise<number> {
      // Written again, because Redis may have forgotten the first write.
      const again = [...noted]
      await add(again)
      for (const ref of again) noted.delete(ref)
      const found = new Map<string, number>()
      for await (const refs of members(redis)) {
        const owed = await owedBy(refs)
        refs.forEach((ref, i) => found.set(ref, owed[i] ?? 0))
        await remove(refs.filter((_, i) => owed[i] === 0))
      }
      return [...found.values()].reduce((sum, owed) => sum + owed, 0)
    },
    /** Looks at every account, so that the next sum has all. */
    async findAll(): Promise<void> {
      for await (const refs of refsWithRests(redis, lookedAtOnce)) await addOwing(refs)
    },
  }
}

async function* members(redis: Redis): AsyncGenerator<readonly string[]> {
  let cursor = '0'
  do {
    const [next, refs] = await redis.sscan(keys.debtors, cursor, 'COUNT', chunk)
    yield refs
    cursor = next
  } while (cursor !== '0')
}
