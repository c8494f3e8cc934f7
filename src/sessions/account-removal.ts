// Deletes an account: closed at first, then its keys, its sessions with messages and files, all its other rows, its
// names. Each step may be repeated, so a deletion that was cut goes on when it is called again, on any gateway. Objects
// in the store are queued, and removed soon. What stays are the books (ledger/closing.ts).

import { setTimeout as wait } from 'node:timers/promises'
import type { Accounts, StoredAccount } from '../accounts/accounts.ts'
import { createRoom } from '../accounts/room.ts'
import { GatewayError, hasCode } from '../errors.ts'
import { fileScripts } from '../files/library.ts'
import { drop, dropFilesOf, forgetSessions } from '../files/removal.ts'
import type { Ledger } from '../ledger/ledger.ts'
import { asked } from '../redis/asked.ts'
import { keys } from '../redis/keys.ts'
import { createScripts } from '../redis/scripts.ts'
import type { ScriptLink } from '../redis/scripts.ts'
import { sessionScripts } from './library.ts'
import { SessionBook } from './sessions.ts'

export interface AccountRemovalOptions {
  readonly redis: ScriptLink
  readonly ledger: Pick<Ledger, 'closing' | 'leaseMs'>
  readonly accounts: Pick<Accounts, 'getAccount' | 'eraseKeys' | 'eraseRows' | 'eraseAccount'>
  /** Called before the account loses its names, again if the deletion is called again. */
  readonly remember?: (ref: string) => Promise<void>
  /** How long requests that run may take to end. Default: a lease and a little, after which those of a dead gateway have ended. */
  readonly patienceMs?: number
}

const pollMs = 200
const moreThanALeaseMs = 5000
const sessionsAtOnce = 16
const filesAtOnce = 100
const objectsAtOnce = 1000

/** Throws `account_not_empty`, and `account_in_use` when requests do not end. Resolves with what is left of the account. */
export type RemoveAccount = (account: StoredAccount, forfeit: boolean) => Promise<StoredAccount>

export function createAccountRemoval(options: AccountRemovalOptions): RemoveAccount {
  const { redis, ledger, accounts } = options
  const erase = rowErasure(redis)
  return async ({ ref, account: { id } }, forfeit) => {
    await ledger.closing.close(ref, forfeit)
    await accounts.eraseKeys(ref)
    // A send needs a hold, so no message is begun after this.
    await writeOff(options, ref)
    await erase.sessions(ref)
    await erase.objects(ref)
    await erase.files(ref)
    await erase.dates(ref)
    await accounts.eraseRows(ref)
    await options.remember?.(ref)
    await accounts.eraseAccount(ref, id)
    return accounts.getAccount(id)
  }
}

async function writeOff({ ledger, patienceMs }: AccountRemovalOptions, ref: string): Promise<void> {
  const { closing, leaseMs } = ledger
  const endsMs = performance.now() + (patienceMs ?? leaseMs + moreThanALeaseMs)
  for (;;) {
    const open = await closing.writeOff(ref)
    if (open === 0) return
    if (performance.now() > endsMs) {
      const message = `The account is closed, and ${open} of its requests have not ended. Delete it again.`
      throw new GatewayError('account_in_use', { message })
    }
    await wait(pollMs)
  }
}

function rowErasure(link: ScriptLink) {
  const redis = link.client
  const room = createRoom(link)
  const scripts = createScripts({ link, library: fileScripts })
  const removal = { redis, scripts, retryMs: 0 }
  const book = new SessionBook({
    redis,
    scripts: createScripts({ link, library: sessionScripts }),
    room,
    retentionMs: 0,
    replayKeepMs: 0,
  })
  const eraseSession = async (ref: string, id: string) => {
    await book.remove(ref, id).catch(async (error: unknown) => {
      if (!hasCode(error, 'session_not_found')) throw error
      // It has expired.
      await room.forgetExpired(ref, [id])
    })
    await dropFilesOf(removal, ref, id)
  }
  const dropOne = async (ref: string, id: string) => {
    const session = (await redis.hget(keys.file(ref, id), 'session')) ?? ''
    await drop(removal, { ref, id, session })
  }
  return {
    sessions: (ref: string) =>
      asked(eachOf(link, keys.sessions(ref), sessionsAtOnce, (id) => eraseSession(ref, id))),
    /** Has those of sleeping sessions removed in the next round (asleep/rounds.ts), and not a day later. */
    objects: (ref: string) => asked(dueNow(link, keys.sessionObjects(ref))),
    /** Those whose session has gone before. */
    files: (ref: string) =>
      asked(eachOf(link, keys.files(ref), filesAtOnce, (id) => dropOne(ref, id))),
    /** The sweeper's dates with sessions, when there are no files. */
    dates: (ref: string) => asked(forgetSessions(redis, ref)),
  }
}

/** Until the list is empty; the work takes its id from the list. */
async function eachOf(
  { client }: ScriptLink,
  list: string,
  atOnce: number,
  work: (id: string) => Promise<unknown>,
): Promise<void> {
  for (;;) {
    const ids = await client.zrange(list, '0', String(atOnce - 1))
    if (ids.length === 0) return
    await Promise.all(ids.map(work))
  }
}

async function dueNow({ client }: ScriptLink, objects: string): Promise<void> {
  for (;;) {
    const later = await client.zrange(objects, '(0', '+inf', 'BYSCORE', 'LIMIT', 0, objectsAtOnce)
    if (later.length === 0) return
    // XX: an object that was removed meanwhile gets no record again.
    await client.zadd(objects, 'XX', ...later.flatMap((object) => [0, object]))
  }
}
