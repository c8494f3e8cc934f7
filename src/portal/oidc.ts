// Whom a provider's claims let in, and to which account. The first log-in makes the account; its external id is made of
// the issuer and the claim. First log-ins at the same time make one account with one starting balance.

import { hash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { newAccountSeed } from '../accounts/accounts.ts'
import type { Accounts, StoredAccount } from '../accounts/accounts.ts'
import { GatewayError, hasCode } from '../errors.ts'
import type { Ledger } from '../ledger/ledger.ts'
import type { DeletedLogins } from './deleted-logins.ts'
import type { Claims, Person } from './provider.ts'
import { issuerPart } from './settings.ts'
import type { OidcSettings } from './settings.ts'

/** Who has logged in, when all rules are kept. */
export interface Vouched {
  readonly externalId: string
  /** Unique, because operators call accounts by their names: no one can get another's name by editing a profile. */
  readonly name: string
}

/** Throws `login_refused`. */
export function admit(person: Person, settings: OidcSettings): Vouched {
  const { allow, account_claim: claim, issuer } = settings
  const email = verifiedEmail(person)
  if (allow.domains.length > 0) {
    const domain = email?.slice(email.lastIndexOf('@') + 1).toLowerCase()
    if (domain === undefined || !allow.domains.includes(domain)) throw no('domain')
  }
  if (allow.groups.length > 0) {
    const groups = [claimOf(person, allow.groups_claim)].flat()
    if (!allow.groups.some((group) => groups.includes(group))) throw no('groups')
  }
  const value = claim === 'email' ? email : claimOf(person, claim)
  if (typeof value !== 'string' || !plainText.test(value)) throw no(claim)
  const whole = `${issuer}#${claim}=${value}`
  const externalId =
    whole.length <= 255 ? whole : `${issuerPart(settings)}#${hash('sha256', whole, 'base64url')}`
  const isOwn = claim === 'sub' || claim === 'email'
  const name = isOwn && email !== undefined ? email : `${URL.parse(issuer)?.host}/${value}`
  return { externalId, name: name.slice(0, 150) }
}

const plainText = /^[^\p{Cc}\p{Cs}]{1,1000}$/u

/** The address and whether it is verified must come from one place. */
function verifiedEmail({ claims, userInfo }: Person): string | undefined {
  const { email, email_verified: isVerified } = claims.email === undefined ? userInfo : claims
  const isGood = typeof email === 'string' && isVerified === true && plainText.test(email)
  return isGood && email.includes('@') && !email.startsWith('acct_') ? email : undefined
}

function claimOf({ claims, userInfo }: Person, name: string): Claims[string] {
  return Object.hasOwn(claims, name) ? claims[name] : userInfo[name]
}

function no(what: string): GatewayError {
  return new GatewayError('login_refused', { cause: new Error(`by the claim of its ${what}`) })
}

export interface Joining {
  readonly accounts: Pick<Accounts, 'findAccounts' | 'createAccount'>
  readonly ledger: Pick<Ledger, 'credit'>
  readonly deletedLogins: Pick<DeletedLogins, 'recall'>
  readonly settings: Pick<OidcSettings, 'plan' | 'starting_balance'>
}

const rounds = 40
const waitMs = 25
/** Shorter than Redis keeps the answer of a credit, so that a repeated one gives nothing. */
const givingS = 24 * 3600

/** The account of a person, made at the first log-in. */
export async function join(parts: Joining, admitted: Vouched): Promise<StoredAccount> {
  const found = await findOrMake(parts, admitted)
  const { starting_balance: amount } = parts.settings
  const { account, ref } = found
  const isNew = account.metadata.made_by === madeBy && ageS(account.created_at) < givingS
  // An account that exists already may lack it: the gateway may have died after making the account.
  if (
    amount > 0 &&
    isNew &&
    (await parts.deletedLogins.recall(admitted.externalId)) === undefined
  ) {
    const note = 'Starting balance'
    await parts.ledger.credit({
      ref,
      accountId: account.id,
      idempotencyId: `login:${account.id}`,
      amount,
      type: 'topup',
      note,
    })
  }
  return found
}

const madeBy = 'log-in'

function ageS(createdAt: number): number {
  return Date.now() / 1000 - createdAt
}

async function findOrMake(
  { accounts, deletedLogins, settings }: Joining,
  { externalId, name }: Vouched,
): Promise<StoredAccount> {
  for (let round = 0; round < rounds; round++) {
    const [found] = await accounts.findAccounts({ externalId })
    if (found) return found
    // After the search: an account that was not found because it is deleted is remembered by now.
    const allowance = (await deletedLogins.recall(externalId)) || undefined
    const seed = newAccountSeed()
    const own = round === 0 ? name : `${name} (${seed.id.slice(-8)})`
    const metadata = { made_by: madeBy }
    const fields = { name: own, plan: settings.plan, externalId, metadata, allowance }
    try {
      return await accounts.createAccount(fields, seed)
    } catch (error) {
      // Another account has the name, or another log-in of the same person is making the account now.
      if (!hasCode(error, 'invalid_parameter')) throw error
    }
    await pause(waitMs)
  }
  throw new GatewayError('overloaded')
}
