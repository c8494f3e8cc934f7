// An OpenID Connect provider, through openid-client, which is loaded when the first person logs in. It checks everything
// that a provider answers: issuer, audience, signature, times, state, nonce and PKCE. What a provider can do is read
// from it once an hour; while that fails, what it said last holds. Its answers are bounded in time and size.

import type { Configuration, CustomFetch, ServerMetadata } from 'openid-client'
import { GatewayError, codeOf } from '../errors.ts'
import { soon, unlessAborted } from '../sharing/patience.ts'
import type { OidcSettings } from './settings.ts'

/** What the browser keeps, sealed, while the person is at the provider. */
export interface AtProvider {
  readonly state: string
  readonly nonce: string
  readonly verifier: string
}

/** What the provider says of a person, as its ID token has it, and its user info where the token lacks something. */
export interface Person {
  readonly claims: Claims
  readonly userInfo: Claims
}

export type Claims = Readonly<Record<string, unknown>>

export interface Provider {
  /** The address to send the browser to. */
  begin(redirectUri: string): Promise<{ readonly url: string; readonly begun: AtProvider }>
  /** `url` is what the browser came back with. Throws `login_refused` when anything about it is wrong. */
  finish(url: URL, begun: AtProvider): Promise<Person>
  /** Where the person logs out of the provider; undefined when it has no such address. Rejects within a second when it is not known. */
  endUrl(back: string): Promise<string | undefined>
  /** What it says of itself. Throws `login_unavailable`. */
  metadata(): Promise<Readonly<ServerMetadata>>
}

export interface ProviderOptions {
  /** The time limit of each call. */
  readonly timeoutMs?: number
  readonly now?: () => number
}

const knownMs = 3_600_000
const againMs = 5000
/**
 * How long a log-in waits for news of a provider that is known already, and how long a log-out waits for what any
 * provider says of itself.
 */
const newsMs = 1000
const maxAnswerBytes = 1024 * 1024

export function createProvider(settings: OidcSettings, options: ProviderOptions = {}): Provider {
  const { scopes, account_claim: accountClaim, allow } = settings
  const discover = cachedDiscovery(settings, options)
  const scope = [...new Set(['openid', ...scopes])].join(' ')
  const needed = [accountClaim, 'email', ...(allow.groups.length > 0 ? [allow.groups_claim] : [])]
  return {
    async begin(redirect_uri) {
      const [client, config] = await Promise.all([load(), discover()])
      const verifier = client.randomPKCECodeVerifier()
      const begun = { state: client.randomState(), nonce: client.randomNonce(), verifier }
      const { href: url } = client.buildAuthorizationUrl(config, {
        redirect_uri,
        scope,
        state: begun.state,
        nonce: begun.nonce,
        code_challenge: await client.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
      })
      return { url, begun }
    },
    async finish(url, { state, nonce, verifier }) {
      const [client, config] = await Promise.all([load(), discover()])
      const tokens = await client
        .authorizationCodeGrant(config, url, {
          pkceCodeVerifier: verifier,
          expectedState: state,
          expectedNonce: nonce,
          idTokenExpected: true,
        })
        .catch(refused)
      const claims = tokens.claims()
      if (!claims) throw new GatewayError('login_refused')
      const isComplete = needed.every((name) => claims[name] !== undefined)
      if (isComplete || !config.serverMetadata().userinfo_endpoint) return { claims, userInfo: {} }
      const userInfo = await client
        .fetchUserInfo(config, tokens.access_token, claims.sub)
        .catch(refused)
      return { claims, userInfo }
    },
    async endUrl(back) {
      const known = Promise.all([load(), discover()])
      const [client, config] = await unlessAborted(known, AbortSignal.timeout(newsMs))
      if (!config.serverMetadata().end_session_endpoint) return undefined
      return client.buildEndSessionUrl(config, { post_logout_redirect_uri: back }).href
    },
    async metadata() {
      return (await discover()).serverMetadata()
    },
  }
}

function load() {
  return import('openid-client')
}

/** A provider that is away is asked again after some seconds. */
function cachedDiscovery(
  settings: OidcSettings,
  { timeoutMs = 10_000, now = () => performance.now() }: ProviderOptions,
): () => Promise<Configuration> {
  let last: Configuration | undefined
  let asked: Promise<Configuration> | undefined
  let untilMs = 0
  const ask = () => {
    const asking = discovery(settings, timeoutMs)
    asking.then(
      (config) => (last = config),
      () => (untilMs = now() + againMs),
    )
    return asking
  }
  return async () => {
    if (!asked || now() >= untilMs) {
      untilMs = now() + knownMs
      asked = ask()
    }
    if (!last) return asked
    await soon(asked, newsMs)
    return last
  }
}

async function discovery(settings: OidcSettings, timeoutMs: number): Promise<Configuration> {
  const { issuer, client_id: clientId, client_secret: secret } = settings
  const client = await load()
  const auth = secret === '' ? client.None() : client.ClientSecretPost(secret)
  // The configuration allows http for loopback alone.
  const inClear = issuer.startsWith('http:') ? [client.allowInsecureRequests] : []
  // Without this the library trusts the connection to the provider, and checks no signature.
  const execute = [...inClear, client.enableNonRepudiationChecks]
  const timeout = secondsOf(timeoutMs)
  const options = { execute, timeout, [client.customFetch]: boundedFetch }
  return client
    .discovery(new URL(issuer), clientId, undefined, auth, options)
    .catch((cause: unknown) => {
      throw new GatewayError('login_unavailable', { cause })
    })
}

/**
 * The library turns the seconds back into milliseconds. A timer refuses 16,100.000000000002, so such a time is rounded
 * up to a whole second.
 */
function secondsOf(ms: number): number {
  const seconds = ms / 1000
  return Number.isInteger(seconds * 1000) ? seconds : Math.ceil(seconds)
}

/** `fetch` with an answer of at most 1 MiB, read whole: the library would read any length. */
export const boundedFetch: CustomFetch = async (url, options) => {
  const { status, headers, body } = await fetch(url, options as RequestInit)
  if (!body) return new Response(null, { status, headers })
  const pieces: Uint8Array[] = []
  let bytes = 0
  for await (const piece of body) {
    bytes += piece.length
    if (bytes > maxAnswerBytes) throw new TypeError('the answer of the provider is too long')
    pieces.push(piece)
  }
  return new Response(Buffer.concat(pieces), { status, headers })
}

/** Refuses a log-in because something that the browser or the provider has sent is wrong. */
function refused(cause: unknown): never {
  throw new GatewayError(isAway(cause) ? 'login_unavailable' : 'login_refused', { cause })
}

/** Whether the provider gave no answer, or only a 5xx. fetch throws a TypeError when there is no answer. */
function isAway(error: unknown): boolean {
  if (error instanceof TypeError || codeOf(error) === 'OAUTH_TIMEOUT') return true
  const answer = error instanceof Error && error.cause instanceof Response ? error.cause : error
  return (
    typeof answer === 'object' &&
    answer !== null &&
    'status' in answer &&
    Number(answer.status) >= 500
  )
}
