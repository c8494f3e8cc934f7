// Identifies the caller: reads the Bearer key, refuses a malformed key without asking Redis, and lets the ledger
// identify the others. Failed keys are counted by address, and only failing requests get 429, because many customers
// share one address. Refusals of a known key are counted by key, and by account, because a customer can make many keys:
// after too many, requests are refused before the body is read.

import { GatewayError } from '../errors.ts'
import type { Exchange, Hooks, Route, Scope } from '../exchange.ts'
import type { Gateway, Plugin } from '../plugin.ts'
import { smallBytes } from '../http/json/scan.ts'
import { accountSettings, keyReader } from '../accounts/api-key.ts'
import { claimPepper, OtherPepper } from '../accounts/pepper.ts'
import { createRate, createGuard } from '../accounts/rate.ts'
import type { Rate, Guard, Levels } from '../accounts/rate.ts'
import { z } from '../config/schema.ts'
import { keptThroughReloads } from '../kept-through-reloads.ts'

const schema = z.strictObject({
  failures_per_minute_per_ip: z
    .int()
    .min(1)
    .default(60)
    .describe(
      'How many wrong keys a minute one address may send before further ones are answered 429.',
    ),
  refusals_per_minute: z
    .int()
    .min(1)
    .default(600)
    .describe(
      'How many refusals (401, 402, 403, 429, and other 4xx of a body over 4 KiB) a minute a known key may get before its requests are answered 429 without being read. A refusal counts one more for each MiB of its body. An account may get ten times as many, whatever the number of its keys.',
    ),
  ...accountSettings.shape,
})

export const auth: Plugin<z.infer<typeof schema>> = {
  name: 'auth',
  schema: schema.describe(
    'Who calls: API keys are checked. With `false`, every request is refused.',
  ),
  async setup(gateway, config) {
    const using = inUse(gateway)
    const claim = await claimOf(gateway, config.pepper)
    using.claim ??= claim
    const { failed, refused, refusedAccounts } = counted(gateway)
    const { refusals_per_minute: refusalsPerMinute } = config
    const parts = {
      gateway,
      claim,
      readKey: keyReader(gateway.config),
      guard: createGuard(config.failures_per_minute_per_ip, {
        what: 'Too many wrong keys from this address.',
        levels: failed,
      }),
      refusals: createRate(refusalsPerMinute, refused),
      accountRefusals: createRate(keysOfAccount * refusalsPerMinute, refusedAccounts),
    }
    return {
      begin(x) {
        // Not in the set-up: a reload may still be refused for another reason.
        if (using.claim !== claim) take(parts)
        return needsKey(x.route) ? hooksOf(x, parts) : undefined
      },
    }
  },
}

/** A reload gives nobody new tries. */
const counted = keptThroughReloads(() => ({
  failed: new Map() satisfies Levels,
  refused: new Map() satisfies Levels,
  refusedAccounts: new Map() satisfies Levels,
}))

/** What this process knows of a pepper. */
interface PepperClaim {
  readonly pepper: string
  /** Redis knows it. */
  isNoted: boolean
  /** The id of the newest key that has proven it. */
  provenBy?: string | undefined
  /** Before this time (`performance.now()`), no valid key has it noted. */
  triesFrom: number
}

/** `claim` is that of the configuration with which the newest request began, or of the start. */
const inUse = keptThroughReloads((): { claim?: PepperClaim } => ({}))

/** A start goes on when the connection to Redis is lost for a moment. */
const startPatienceMs = 10_000

/** Asks Redis only when the pepper is another one, so that other reloads go through while Redis is away. */
async function claimOf(gateway: Gateway, pepper: string): Promise<PepperClaim> {
  const { client } = gateway.redis
  const known = inUse(gateway).claim
  if (known?.pepper === pepper) return known
  // Keys are made under the pepper that this process has, so that one comes before another that the file has now.
  // Where Redis knows another one, the file may have just that.
  if (known && !known.isNoted) {
    await claimPepper(client, known.pepper, { provenBy: known.provenBy }).catch(unlessOther)
  }
  // A reload notes nothing of its own: it may still be refused for another reason.
  const how = known ? { isLook: true } : { patienceMs: startPatienceMs }
  const isNoted = await claimPepper(client, pepper, how)
  if (!isNoted) gateway.log.warn({}, 'Redis does not know yet which pepper its keys have')
  return { pepper, isNoted, triesFrom: 0 }
}

function unlessOther(error: unknown): void {
  if (!(error instanceof OtherPepper)) throw error
}

/** Redis may refuse for a while to note it, for instance because its memory is full. */
const triesAgainMs = 1000

/** Called at the first request of a configuration. From now on, keys are made under its pepper, so where no key is, it is noted. */
function take(parts: AuthParts): void {
  const { gateway, claim } = parts
  inUse(gateway).claim = claim
  if (!claim.isNoted) note(parts, undefined)
}

/** Called with the id of the key that was valid, if one was: a request may outlive the configuration that it began with. */
function provePepper(parts: AuthParts, keyId: string | undefined): void {
  const { gateway, claim } = parts
  const nowMs = performance.now()
  if (!keyId || claim.isNoted || nowMs < claim.triesFrom) return
  if (inUse(gateway).claim !== claim) return
  claim.triesFrom = nowMs + triesAgainMs
  note(parts, keyId)
}

function note({ gateway, claim }: AuthParts, keyId: string | undefined): void {
  const proof = { provenBy: keyId, onProven: () => void (claim.provenBy = keyId) }
  claimPepper(gateway.redis.client, claim.pepper, proof).then(
    (isThere) => void (claim.isNoted = isThere),
    (err: unknown) => {
      if (err instanceof OtherPepper) claim.triesFrom = Infinity
      gateway.log.warn({ err }, 'the pepper could not be noted')
    },
  )
}

/** An account may be refused as often as this many of its keys: fewer keys than that cannot shut out its others. */
const keysOfAccount = 10

const keyless: ReadonlySet<Route['access']> = new Set(['anybody', 'admin-token', 'cookie'])

function needsKey(route: Route): boolean {
  return !keyless.has(route.access)
}

interface AuthParts {
  readonly gateway: Gateway
  readonly claim: PepperClaim
  readonly readKey: ReturnType<typeof keyReader>
  readonly guard: Guard
  /** By the hash of a key that Redis knows. */
  readonly refusals: Rate
  /** By the ref. */
  readonly accountRefusals: Rate
}

function hooksOf(x: Exchange, parts: AuthParts): Hooks {
  const { gateway, readKey, refusals, accountRefusals } = parts
  let isShutOut = false
  let forgottenBytes = 0
  const identify = async () => {
    if (!x.caller) throw new GatewayError('missing_api_key')
    x.proof ??= isCounted(x.route, gateway)
      ? gateway.ledger.identifyCounted(x.caller)
      : gateway.ledger.identify(x.caller)
    x.identity = await x.proof
  }
  return {
    check() {
      const key = readKey(bearerToken(x.headers.authorization))
      if (!key) throw new GatewayError('invalid_api_key')
      const refusal =
        refusals.refusal(key.hmac, 'Too many refused requests with this key.') ??
        accountRefusals.refusal(key.ref, "Too many refused requests with the account's keys.")
      isShutOut = refusal !== undefined
      if (refusal) throw refusal
      x.caller = { ...key, scope: scopeOf(x.route) }
    },
    vouch: identify,
    // On a metered route, the script that makes the hold also identifies the caller: this saves a round trip to Redis.
    identify: isLeftToMetering(x.route, gateway) ? undefined : identify,
    done: parts.claim.isNoted ? undefined : () => provePepper(parts, x.identity?.keyId),
    // A repetition forgets its body at this point (idempotency.ts). The limits may still refuse it, so its size is
    // noted.
    answered: () => void (forgottenBytes = x.body.length),
    refuse(error) {
      const bodyBytes = Math.max(x.body.length, forgottenBytes)
      return isShutOut ? undefined : countRefusal(error, x, { ...parts, bodyBytes })
    },
  }
}

/** Not for routes that create: they may replay an earlier answer, and then make no hold. */
function isLeftToMetering(route: Route, { config }: Gateway): boolean {
  const { metered, creates } = route
  return metered === true && !creates && config.plugins.has('metering')
}

/** Whether the script that checks the key also counts the request, for the plugin limits: this saves a round trip, too. */
function isCounted({ metered }: Route, { config }: Gateway): boolean {
  return !metered && config.plugins.has('limits')
}

function scopeOf(route: Route): Scope | '' {
  return route.access === 'any-key' ? '' : (route.access as Scope)
}

function bearerToken(header: string | undefined): string {
  if (!header) throw new GatewayError('missing_api_key')
  const match = /^Bearer +([^\s]+)$/i.exec(header)
  if (!match?.[1]) throw new GatewayError('invalid_api_key')
  return match[1]
}

interface Counting extends AuthParts {
  readonly bodyBytes: number
}

/** Counts a refusal. Returns the error to answer instead, when the address has failed too often. */
function countRefusal(
  error: GatewayError,
  x: Exchange,
  { bodyBytes, ...parts }: Counting,
): GatewayError | undefined {
  const isKnownKey = Boolean((x.identity ?? error.caller)?.keyId)
  const weight = isKnownKey ? weightOf(error, bodyBytes) : 0
  if (x.caller && weight > 0) {
    parts.refusals.use(x.caller.hmac, weight)
    // Whoever has old keys must not be able to shut out those that replaced them.
    if (error.status !== 401) parts.accountRefusals.use(x.caller.ref, weight)
  }
  if (error.status !== 401 || error.code === 'missing_api_key') return undefined
  return parts.guard(x.ip)
}

const refusing: ReadonlySet<number> = new Set([401, 402, 403, 429])

/**
 * How much a refusal counts; 0: not at all. More when a large body was read. A status that is not in `refusing` counts
 * only if the request cost work, and not while a first try still runs: its client is told to ask again and again.
 */
function weightOf({ status, caller, retry }: GatewayError, bodyBytes: number): number {
  const isFromRedis = caller !== undefined
  const costWork = bodyBytes > smallBytes || isFromRedis
  const isCounted = refusing.has(status) || (status < 500 && !retry && costWork)
  if (!isCounted) return 0
  return 1 + Math.floor(bodyBytes / 2 ** 20)
}
