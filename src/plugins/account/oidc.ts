// Log-in at an identity provider: to the provider and back. While the person is there, a sealed cookie of the browser
// holds what the answer must match; Redis remembers that an answer has come, so that none is taken twice. Both routes only
// lead to the provider or to the page: no address comes from the request. `provider-tries.ts` says when the provider
// is asked.

import { createHmac, hash } from 'node:crypto'
import { seal, unseal } from '../../accounts/seal.ts'
import { GatewayError, asGatewayError } from '../../errors.ts'
import type { Answer, Exchange, Route, Serving } from '../../exchange.ts'
import { setCookie } from '../../portal/cookie.ts'
import { createDeletedLogins } from '../../portal/deleted-logins.ts'
import { admit, join } from '../../portal/oidc.ts'
import type { AtProvider, Provider } from '../../portal/provider.ts'
import { entryOf } from '../../portal/secrets.ts'
import type { OidcSettings } from '../../portal/settings.ts'
import { asked } from '../../redis/asked.ts'
import { keys } from '../../redis/keys.ts'
import type { EntryParts } from './entry.ts'
import { protect } from './headers.ts'
import { createProviderTries } from './provider-tries.ts'
import { waitPage } from './wait-page.ts'

export interface OidcParts extends EntryParts {
  readonly settings: OidcSettings
  readonly provider: Provider
}

const cookie = 'tollgate-oidc'
const answerSeconds = 600

interface Kept extends AtProvider {
  readonly atMs: number
}

export function oidcRoutes(parts: OidcParts): readonly Route[] {
  const { access, provider } = parts
  const { page } = access
  const tried = createProviderTries(parts.gateway)
  const redirectUri = `${page.origin}/account/oidc/callback`
  const sealKey = createHmac('sha256', parts.gateway.config.admin.token).update('oidc').digest()
  const get = (path: string, serve: (x: Exchange) => Promise<Answer>): Route => ({
    method: 'GET',
    path: `/account/oidc/${path}`,
    access: 'anybody',
    body: 'none',
    begin: (x): Serving => ({ check: () => protect(x), serve: () => serve(x) }),
  })
  return [
    get('start', async (x) => {
      try {
        const { url, begun } = await provider.begin(redirectUri)
        const kept: Kept = { ...begun, atMs: Date.now() }
        const value = seal(JSON.stringify(kept), sealKey)
        return leadTo(url, setCookie(cookie, value, { ...page, seconds: answerSeconds }))
      } catch (error) {
        return failed(parts, x, error)
      }
    }),
    get('callback', async (x) => {
      try {
        const kept = keptIn(access.cookieOf(x.headers, cookie), sealKey)
        // Before the state is used up: another site can send a browser here, and must not use up a state that it does not know.
        if (x.query.getAll('state').join() !== kept.state) throw byState()
        const letIn = () => enter(parts, x, { kept, redirectUri })
        // A person who must wait has not used the answer up: the same page, loaded again, lets that person in.
        return await tried(x.ip, { letIn, wait: waitPage })
      } catch (error) {
        return failed(parts, x, error)
      }
    }),
  ]
}

interface Coming {
  readonly kept: Kept
  readonly redirectUri: string
}

async function enter(
  parts: OidcParts,
  x: Exchange,
  { kept, redirectUri }: Coming,
): Promise<Answer> {
  const { access, gateway, portal, provider, settings } = parts
  await answerOnce(parts, kept)
  const person = await provider.finish(new URL(`${redirectUri}?${x.query}`), kept)
  const deletedLogins = createDeletedLogins(gateway)
  const { ref } = await join({ ...gateway, deletedLogins, settings }, admit(person, settings))
  const { secret } = await portal.open(ref)
  const before = access.cookieOf(x.headers)
  if (before !== undefined) await portal.leave(entryOf(before))
  return leadTo('/account', setCookie('tollgate', secret, access.page))
}

/** Throws when the browser has brought nothing that this gateway has sealed within the last minutes. */
function keptIn(sealed: string | undefined, sealKey: Buffer): Kept {
  try {
    const kept = JSON.parse(unseal(sealed ?? '', sealKey)) as Kept
    if (Date.now() - kept.atMs < answerSeconds * 1000) return kept
  } catch {
    // Refused below, as what is too old.
  }
  throw byState()
}

function byState(): GatewayError {
  return new GatewayError('login_refused', { cause: new Error('by its state') })
}

/** Throws when an answer with this state has come before. */
async function answerOnce({ gateway }: OidcParts, { state }: Kept): Promise<void> {
  const name = keys.answeredState(hash('sha256', state, 'base64url'))
  const set = await asked(gateway.redis.client.set(name, '1', 'EX', answerSeconds, 'NX'))
  if (set === null) throw byState()
}

/** The page says what was wrong; the log says why. */
function failed({ gateway }: OidcParts, x: Exchange, thrown: unknown): Answer {
  const error = asGatewayError(thrown)
  const { code } = error
  gateway.log.warn({ request_id: x.id, code, reason: reasonOf(error) }, 'a log-in was refused')
  return leadTo(`/account#error=${code}`)
}

/** Without what the provider has answered: that may hold tokens. */
function reasonOf({ cause, message }: GatewayError): string {
  return cause instanceof Error ? cause.message : message
}

function leadTo(location: string, cookie?: string): Answer {
  return {
    status: 303,
    headers: {
      Location: location,
      'Cache-Control': 'no-store',
      ...(cookie !== undefined && { 'Set-Cookie': cookie }),
    },
    body: '',
  }
}
