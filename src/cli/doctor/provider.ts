// The part of `tollgate doctor` about the identity provider of the account page: does it name the issuer that is
// configured, can it do what a log-in needs, does it accept our redirect address, and does it know this client. Logs
// nobody in.

import { boundedFetch, createProvider } from '../../portal/provider.ts'
import type { Provider } from '../../portal/provider.ts'
import { pageOrigin, portalSettings } from '../../portal/settings.ts'
import type { OidcSettings } from '../../portal/settings.ts'
import type { Config } from '../../config/config.ts'
import { GatewayError } from '../../errors.ts'
import { fail, ok, warn } from './examination.ts'
import type { CheckOutcome, Examination } from './examination.ts'

type Metadata = Awaited<ReturnType<Provider['metadata']>>

interface Examined {
  readonly settings: OidcSettings
  readonly provider: Provider
  readonly redirectUri: string
  /** Whether `redirectUri` is what the operator has written, and not this machine. */
  readonly hasUrl: boolean
}

const name = 'identity provider'

export async function examineProvider(
  config: Pick<Config, 'plugins' | 'listen'>,
  examination: Examination,
): Promise<void> {
  const { oidc: settings, url } = portalSettings.of(config)
  if (!settings) return
  // No call may outlive its check by much, or the command would not end; the check has to report first that there is no
  // answer.
  const provider = createProvider(settings, { timeoutMs: examination.limitMs + 100 })
  const redirectUri = `${pageOrigin(config).origin}/account/oidc/callback`
  const examined = { settings, provider, redirectUri, hasUrl: url !== undefined }
  let metadata: Metadata | undefined
  await examination.check(name, async () => {
    const begun = performance.now()
    try {
      metadata = await provider.metadata()
    } catch (error) {
      return discoveryFailure(error, settings)
    }
    return judgeName(metadata, settings, performance.now() - begun)
  })
  if (!metadata) return
  const known = metadata
  const able = await examination.check(`${name} abilities`, async () =>
    judgeAbilities(known, settings),
  )
  if (able === 'fail') return
  await examination.check(`${name} keys`, (signal) => readKeys(known, signal))
  await examination.check(`${name} redirect`, (signal) => beginLogin(examined, signal))
  await examination.check(`${name} client`, () => inventCode(examined, known))
}

/** What is wrong with the provider's description, where that can be said better than by the error itself. */
function discoveryFailure(error: unknown, { issuer }: OidcSettings): CheckOutcome {
  const cause = error instanceof GatewayError ? error.cause : undefined
  const about = cause instanceof Error ? cause.cause : undefined
  if (about instanceof Response) {
    return fail(`${about.status} for ${wellKnown(issuer)}: is this the issuer?`)
  }
  const { body } = (about ?? {}) as { readonly body?: { readonly issuer?: unknown } }
  if (typeof body?.issuer !== 'string') throw error
  return fail(`it calls itself ${body.issuer}: write that as plugins.account.oidc.issuer`)
}

function wellKnown(issuer: string): string {
  return `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`
}

function judgeName(metadata: Metadata, { issuer }: OidcSettings, tookMs: number): CheckOutcome {
  if (!issuer.includes('/.well-known/')) return ok(`${issuer} answers, in ${tookMs.toFixed(0)} ms`)
  const detail =
    'is the address of its description, and nothing compares what the provider calls itself'
  return warn(`issuer ${detail}: write ${metadata.issuer}`)
}

/** What in the provider's description prevents a log-in (fail), and what may prevent one (warn). */
export function judgeAbilities(metadata: Metadata, settings: OidcSettings): CheckOutcome {
  const { scopes, client_secret: secret, issuer } = settings
  const endpoints = ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const
  const isUsable = (text: unknown) =>
    typeof text === 'string' &&
    (text.startsWith('https://') || (issuer.startsWith('http:') && text.startsWith('http://')))
  const wrong = endpoints
    .filter((one) => !isUsable(metadata[one]))
    .map((one) => `its ${one} is ${metadata[one] === undefined ? 'missing' : 'not https'}`)
  const lacks = (list: unknown, what: string) => Array.isArray(list) && !list.includes(what)
  if (lacks(metadata.response_types_supported, 'code')) wrong.push('it has no code flow')
  if (wrong.length > 0) return fail(wrong.join('; '))
  const method = secret === '' ? 'none' : 'client_secret_post'
  const doubts = [
    ...(lacks(metadata.code_challenge_methods_supported, 'S256') ? ['PKCE with S256'] : []),
    ...(lacks(metadata.token_endpoint_auth_methods_supported, method) ? [method] : []),
    ...scopes.filter((one) => lacks(metadata.scopes_supported, one)).map((one) => `scope ${one}`),
  ]
  if (doubts.length > 0) return warn(`its description does not list ${doubts.join(', ')}`)
  return ok('code flow, and all that is asked for')
}

async function readKeys({ jwks_uri = '' }: Metadata, signal: AbortSignal): Promise<CheckOutcome> {
  const answer = await boundedFetch(jwks_uri, {
    method: 'GET',
    headers: { accept: 'application/json' },
    body: undefined,
    redirect: 'manual',
    signal,
  })
  if (answer.status !== 200) return fail(`${answer.status} for ${jwks_uri}`)
  const { keys } = (await answer.json()) as { readonly keys?: unknown }
  const ofSigning = (Array.isArray(keys) ? keys : []).filter(
    (key: { readonly use?: unknown } | null) => key?.use !== 'enc',
  )
  if (ofSigning.length === 0) return fail(`${jwks_uri} has no key for signatures`)
  return ok(`${ofSigning.length} for signatures`)
}

/** Begins a log-in as a browser does: a provider refuses an unknown client or redirect address at once. */
async function beginLogin(
  { provider, redirectUri, hasUrl, settings }: Examined,
  signal: AbortSignal,
): Promise<CheckOutcome> {
  const { url } = await provider.begin(redirectUri)
  const { status, body } = await fetch(url, { redirect: 'manual', signal })
  await body?.cancel()
  if (status >= 400) {
    return fail(
      `${status} to a log-in: register the redirect address ${redirectUri} for client ${settings.client_id} there`,
    )
  }
  if (hasUrl) return ok(`people come back to ${redirectUri}`)
  return warn(`people come back to ${redirectUri}, this machine: set plugins.account.url`)
}

const begun = { state: 'doctor', nonce: 'doctor', verifier: 'doctor'.repeat(8) }

/** Sends an invented code. A provider that objects only to the code knows the client. */
async function inventCode(
  { provider, redirectUri }: Examined,
  { issuer }: Metadata,
): Promise<CheckOutcome> {
  const query = new URLSearchParams({ code: 'doctor', state: begun.state, iss: issuer })
  try {
    await provider.finish(new URL(`${redirectUri}?${query}`), begun)
  } catch (error) {
    const { cause } = error as {
      readonly cause?: { readonly error?: unknown; readonly status?: unknown }
    }
    if (cause?.error === 'invalid_grant') return ok('it knows client_id and client_secret')
    if (cause?.error === 'invalid_client' || cause?.status === 401) {
      return fail('it refuses client_id or client_secret')
    }
    if (typeof cause?.error !== 'string') throw error
    return warn(`it refuses an invented code with ${cause.error}, where invalid_grant is usual`)
  }
  return fail('it takes a code that nobody has given')
}
