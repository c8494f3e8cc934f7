// Who is in on the account page: portal links, which let in once, and log-ins, which a cookie stands for. Redis has
// only hashes of both. A log-in ends after 12 h without use, after 7 days, when the customer logs out, and when the
// account is suspended. An account has a bounded number of log-ins: a further one ends the oldest. A log-in's keys of
// the playground end with it. Knows no HTTP.

import { GatewayError } from '../errors.ts'
import { keys } from '../redis/keys.ts'
import { createScripts, textAt } from '../redis/scripts.ts'
import type { ScriptLibrary, ScriptLink } from '../redis/scripts.ts'
import { entryOf, newSecret } from './secrets.ts'
import type { Entry } from './secrets.ts'

export const portalScripts = {
  folder: new URL('lua/', import.meta.url),
  scripts: {
    link: {
      after: ['portal'],
      words: ['ok', 'account_not_found', 'account_deleted', 'account_suspended'],
    },
    enter: { after: ['portal'], words: ['ok', 'invalid_link'] },
    open: { after: ['portal'], words: ['ok', 'account_not_found', 'account_suspended'] },
    look: { after: ['portal'], words: ['ok', 'not_logged_in', 'account_suspended'] },
    leave: { after: ['portal'], words: ['ok'] },
  },
} as const satisfies ScriptLibrary<Readonly<Record<string, string>>>

const hourMs = 3_600_000
export const linkMs = 15 * 60_000
const idleMs = 12 * hourMs
const wholeMs = 7 * 24 * hourMs
/** For how long a log-in is good: without use, and in all. As the scripts take it. */
export const loginLife: readonly string[] = [String(idleMs), String(wholeMs)]
const mostLinks = 20

export interface PortalLink {
  /** What the address of the page has after `#link=`. */
  readonly secret: string
  /** Unix seconds. */
  readonly expiresAt: number
}

/** Whom a cookie stands for. */
export interface Login extends Entry {
  readonly accountId: string
  readonly name: string
  readonly plan: string
  readonly via: 'link' | 'oidc'
  readonly returnUrl: string | null
}

export interface Entered {
  /** For the cookie. */
  readonly secret: string
  readonly accountId: string
}

export type Portal = ReturnType<typeof createPortal>

/** `mostLogins`: of an account. */
export function createPortal(link: ScriptLink, mostLogins: number) {
  const scripts = createScripts({ link, library: portalScripts })
  const entered = (secret: string, accountId: string): Entered => ({ secret, accountId })
  return {
    /** Throws `account_not_found`, `account_deleted`, `account_suspended`. */
    async makeLink(ref: string, returnUrl = ''): Promise<PortalLink> {
      const secret = newSecret(ref)
      const args = [entryOf(secret).hash, String(linkMs), String(mostLinks), returnUrl]
      const reply = await scripts.run('link', [keys.account(ref), keys.portalLinks(ref)], args)
      if (reply.word !== 'ok') throw new GatewayError(reply.word)
      return { secret, expiresAt: Math.floor((reply.nowMs + linkMs) / 1000) }
    },
    /** Uses a link up. Throws `invalid_link` for any text that does not let in, whatever the reason. */
    async enter(text: string): Promise<Entered> {
      const { ref, hash } = entryOf(text)
      const secret = newSecret(ref)
      const args = [hash, entryOf(secret).hash, ...loginLife, String(mostLogins)]
      const names = [keys.account(ref), keys.portalLinks(ref), keys.logins(ref), keys.pageKeys(ref)]
      const reply = await scripts.run('enter', names, args)
      if (reply.word !== 'ok') throw new GatewayError('invalid_link')
      return entered(secret, textAt(reply, 2))
    },
    /** For a person whom an identity provider has vouched for. Throws `account_suspended`. */
    async open(ref: string): Promise<Entered> {
      const secret = newSecret(ref)
      const args = [entryOf(secret).hash, ...loginLife, String(mostLogins)]
      const names = [keys.account(ref), keys.logins(ref), keys.pageKeys(ref)]
      const reply = await scripts.run('open', names, args)
      if (reply.word !== 'ok') throw new GatewayError(reply.word)
      return entered(secret, textAt(reply, 2))
    },
    /** Throws `not_logged_in`, and `account_suspended` once for each log-in that the suspension has ended. */
    async look({ ref, hash }: Entry): Promise<Login> {
      const names = [keys.account(ref), keys.logins(ref)]
      const reply = await scripts.run('look', names, [hash, ...loginLife])
      if (reply.word !== 'ok') throw new GatewayError(reply.word)
      return {
        ref,
        hash,
        accountId: textAt(reply, 2),
        name: textAt(reply, 3),
        plan: textAt(reply, 4),
        via: textAt(reply, 5) === 'oidc' ? 'oidc' : 'link',
        returnUrl: textAt(reply, 6) || null,
      }
    },
    /** Ends the log-in, and its keys of the playground. */
    async leave({ ref, hash }: Entry): Promise<void> {
      await scripts.run('leave', [keys.logins(ref), keys.pageKeys(ref)], [hash])
    },
  }
}
