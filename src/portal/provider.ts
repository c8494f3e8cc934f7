// An OpenID Connect provider, through openid-client, which is loaded when the first person logs in. It checks everything
// that a provider answers: issuer, audience, signature, times, state, nonce and PKCE. What a provider can do is read
// from it once an hour.

import type { Configuration } from 'openid-client'
import { GatewayError } from '../errors.ts'
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
  /** Where the person logs out of the provider; undefined when it has no such address. */
  endUrl(back: string): Promise<string | undefined>
}

const timeoutS = 10
const knownMs = 3_600_000
const againMs = 5000

export function createProvider(settings: OidcSettings): Provider {
  const { scopes, account_claim: accountClaim, allow } = settings
  const discover = cachedDiscovery(settings)
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
      const [client, config] = await Promise.all([load(), discover()])
      if (!config.serverMetadata().end_session_endpoint) return undefined
      return client.buildEndSessionUrl(config, { post_logout_redirect_uri: back }).href
    },
  }
}

function load() {
  return import('openid-client')
}

/** A provider that is away is asked again after some seconds. */
function cachedDiscovery(settings: OidcSettings): () => Promise<Configuration> {
  let known: { readonly config: Promise<Configuration>; untilMs: number } | undefined
  return () => {
    if (known && performance.now() < known.untilMs) return known.config
    const found = { config: discovery(settings), untilMs: performance.now() + knownMs }
    found.config.catch(() => void (found.untilMs = performance.now() + againMs))
    known = found
    return found.config
  }
}

async function discovery(settings: OidcSettings): Promise<Configuration> {
  const { issuer, client_id: clientId, client_secret: secret } = settings
  const client = await load()
  const auth = secret === '' ? client.None() : client.ClientSecretPost(secret)
  // The configuration allows http for loopback alone.
  const inClear = issuer.startsWith('http:') ? [client.allowInsecureRequests] : []
  // Without this the library trusts the connection to the provider, and checks no signature.
  const execute = [...inClear, client.enableNonRepudiationChecks]
  const options = { execute, timeout: timeoutS }
  return client
    .discovery(new URL(issuer), clientId, undefined, auth, options)
    .catch((cause: unknown) => {
      throw new GatewayError('login_unavailable', { cause })
    })
}

/** Whatever a browser or a provider brings that is not as it should be. */
function refused(cause: unknown): never {
  throw new GatewayError('login_refused', { cause })
}
