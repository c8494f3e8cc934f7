// The keys of `plugins.account`, and what follows from them: where the page is, and which pages may call it or be led
// back to.

import { lowBalance } from '../accounts/low-balance.ts'
import type { Config } from '../config/config.ts'
import { isLoopback } from '../config/host-port.ts'
import { duration, secret, z } from '../config/schema.ts'
import { settingsOf } from '../config/settings.ts'

const originHelp = 'write an origin such as https://www.example.com'
const urlHelp = 'write https://chat.example.com; http:// is for loopback alone'

/** `https://host`, in lower case, without a path; undefined for anything else. */
function originIn(text: string): string | undefined {
  const url = webUrl(text)
  return url?.href === `${url?.origin}/` ? url?.origin : undefined
}

/** The scheme is checked, because a `blob:` or `javascript:` URL can have any origin in it. */
function webUrl(text: string): URL | undefined {
  const url = URL.parse(text)
  const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:'
  return url && isWeb && url.username === '' && url.password === '' ? url : undefined
}

const origin = z
  .string({ error: originHelp })
  .refine((text) => originIn(text) !== undefined, { error: originHelp })

/** https, or http on loopback. */
function isHttps(text: string): boolean {
  const url = URL.parse(text)
  return url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname))
}

const oidc = z.strictObject({
  issuer: z
    .string()
    .refine(isHttps, { error: 'write the https URL of the provider; http is for loopback' })
    .describe(
      'The identity provider, as its tokens name it; its addresses are read from there (OpenID Discovery).',
    ),
  label: z
    .string()
    .max(60)
    .default('single sign-on')
    .describe('What the button says after "Log in with".'),
  client_id: z.string().min(1).describe('The id of this gateway at the provider.'),
  client_secret: secret().default('').describe('Its secret there, best as `${NAME}`.'),
  scopes: z
    .array(z.string().regex(/^[\x21-\x7e]+$/))
    .default(['openid', 'email', 'profile'])
    .describe('What is asked for; `openid` always is.'),
  allow: z
    .strictObject({
      domains: z
        .array(z.string().toLowerCase())
        .default([])
        .describe('Only people with a verified e-mail address of one of these domains.'),
      groups: z
        .array(z.string())
        .default([])
        .describe('Only members of one of these groups, as the claim `groups_claim` has them.'),
      groups_claim: z.string().default('groups').describe('The claim with the groups of a person.'),
    })
    .prefault({})
    .describe('Who may log in; empty lists let everybody in whom the provider knows.'),
  account_claim: z
    .string()
    .default('sub')
    .describe(
      'The claim that says whose account it is: people with the same value share an account. Never one that people choose themselves. With `email`, the address must be verified.',
    ),
  plan: z.string().default('default').describe('The plan of accounts that a log-in makes.'),
  starting_balance: z
    .int()
    .min(0)
    .default(0)
    .describe('Balance tokens that such an account is given, once.'),
  remember_deleted: duration({ min: 0, max: 24 * 3_600_000 * 3660 })
    .prefault('8760h')
    .describe(
      'How long a deleted account is remembered, without a name: whoever logs in again within this time gets no second `starting_balance`, nor a second allowance in the same window. With `0s` nothing is kept.',
    ),
})

export type OidcSettings = z.output<typeof oidc>

/** The beginning of all external ids that log-ins make. */
export function issuerPart({ issuer }: Pick<OidcSettings, 'issuer'>): string {
  return issuer.slice(0, 200)
}

export const portalSettings = settingsOf('account', {
  url: z
    .string({ error: urlHelp })
    .refine((text) => originIn(text) !== undefined && isHttps(text), { error: urlHelp })
    .optional()
    .describe(
      'Where browsers find this gateway, without a path. By default `http://localhost:` and the port of `listen` (`https` with TLS): then the page works on this machine alone.',
    ),
  return_urls: z
    .array(origin)
    .default([])
    .describe('Origins to which a portal link may lead back, such as your own site.'),
  currency: z
    .strictObject({
      code: z
        .string()
        .regex(/^[A-Z]{3}$/, { error: 'write a code of ISO 4217, such as EUR' })
        .describe('Such as `EUR`.'),
      tokens: z.int().min(1).describe('How many balance tokens one unit of it is worth.'),
    })
    .optional()
    .describe('The page shows amounts in this money, too.'),
  ...lowBalance.shape,
  max_keys: z
    .int()
    .min(1)
    .max(10_000)
    .default(100)
    .describe(
      'Keys that an account may have in its list when a customer makes one on the page. A key that was revoked or has expired still counts for a day.',
    ),
  max_logins: z
    .int()
    .min(1)
    .max(1000)
    .default(20)
    .describe(
      'Log-ins that an account has at a time; a further one ends the oldest. If people share an account, as with an `account_claim` other than `sub`, set more than there are people. An account has at most half as many keys of the playground, and can make as many a minute.',
    ),
  failures_per_minute_per_ip: z
    .int()
    .min(1)
    .default(60)
    .describe(
      'How many wrong links and cookies a minute one address may send before further ones are answered 429. Log-ins that the identity provider refuses have a count of their own with the same limit; beyond it, the provider is not asked.',
    ),
  oidc: oidc.optional().describe('People log in at this OpenID Connect provider.'),
})

/** Where the page is. */
export interface PageOrigin {
  /** Such as `https://chat.example.com`. */
  readonly origin: string
  /** Whether cookies are for TLS alone. */
  readonly isSecure: boolean
  /** Whether a call comes from the page itself. */
  isOwn(origin: string | undefined, host: string | undefined): boolean
}

type PageConfig = Pick<Config, 'plugins' | 'listen'>

/** From the configuration alone: a Host header is what a client says. */
export function pageOrigin(config: PageConfig): PageOrigin {
  const { url } = portalSettings.of(config)
  const { tls, port } = config.listen
  if (url !== undefined) {
    const own = originIn(url) ?? url
    return { origin: own, isSecure: own.startsWith('https:'), isOwn: (given) => given === own }
  }
  const scheme = tls ? 'https' : 'http'
  return {
    origin: `${scheme}://localhost:${port}`,
    isSecure: tls !== undefined,
    // No page of another site can have a loopback name for its own.
    isOwn(given, host) {
      const page = given === undefined ? null : URL.parse(given)
      return (
        page !== null &&
        page.origin === given &&
        given === `${scheme}://${host}` &&
        isLoopback(page.hostname)
      )
    },
  }
}

const maxReturnUrl = 1000

/** The URL as it is kept; undefined when it does not lead to a configured origin. */
export function returnUrl(config: PageConfig, text: string): string | undefined {
  const url = text.length <= maxReturnUrl ? webUrl(text) : undefined
  const allowed = portalSettings.of(config).return_urls.map(originIn)
  return url && allowed.includes(url.origin) ? url.href : undefined
}
