// Accounts over HTTP: create, list, show, change, delete. `:id` in the path may be the account's id or its exact name.

import { z } from '../../config/schema.ts'
import type { Gateway } from '../../plugin.ts'
import { parseFields, printable } from '../../http/fields.ts'
import { listOf, pageQuery, parseIdPage, single } from '../../http/page.ts'
import { oneOf } from '../../http/query.ts'
import { invalid } from '../../http/refusals.ts'
import { createAccountRemoval } from '../../sessions/account-removal.ts'
import { newAccountSeed } from '../../accounts/accounts.ts'
import type { Account, AccountFields } from '../../accounts/accounts.ts'
import { budget } from '../../accounts/key-fields.ts'
import { once } from '../../accounts/once.ts'
import { createDeletedLogins } from '../../portal/deleted-logins.ts'
import { json } from '../../exchange.ts'
import type { Answer, Exchange, Route } from '../../exchange.ts'
import { accountIn, idOf, noteAccount, route } from './route.ts'

const name = printable(200)
  .min(1, { error: 'write a name' })
  .refine((text) => !text.startsWith('acct_'), { error: 'only ids start with "acct_"' })
const metadata = z
  .record(printable(64), z.string().max(512, { error: 'write at most 512 characters' }), {
    error: 'write an object of texts, with keys of at most 64 characters',
  })
  .refine((pairs) => Object.keys(pairs).length <= 16, { error: 'write at most 16 pairs' })
const fields = {
  plan: z.string().optional(),
  status: z.enum(['active', 'suspended'], { error: 'write active or suspended' }).optional(),
  external_id: printable(255).nullable().optional(),
  metadata: metadata.optional(),
  budget: budget.nullable().optional(),
}
export const creation = z.strictObject({ name, ...fields })
export const change = z.strictObject({ name: name.optional(), ...fields })

export function accountRoutes(gateway: Gateway): readonly Route[] {
  const { accounts, config } = gateway
  const { remember } = createDeletedLogins(gateway)
  const remove = createAccountRemoval({ ...gateway, remember })
  const toFields = <T extends z.infer<typeof change>>({ external_id, ...rest }: T) => {
    const { plan } = rest
    if (plan !== undefined && !config.plans.has(plan)) {
      throw invalid('plan', `must name a plan: ${[...config.plans.keys()].join(' or ')}`)
    }
    return { ...rest, externalId: external_id } satisfies AccountFields
  }
  return [
    route('POST', 'accounts', async (x) => {
      const given = toFields(parseFields(x.body, creation))
      return once(gateway, x, {
        seed: newAccountSeed(),
        create: async (seed) => noteAccount(x, (await accounts.createAccount(given, seed)).account),
      })
    }),
    route('GET', 'accounts', (x) => listed(gateway, x), [...pageQuery, ...filters]),
    route('GET', 'accounts/:id', async (x) => json((await accountIn(gateway, x)).account)),
    route('PATCH', 'accounts/:id', async (x) => {
      const fields = toFields(parseFields(x.body, change))
      const { account } = await accounts.setAccount(idOf(x), fields)
      return json(noteAccount(x, account))
    }),
    route(
      'DELETE',
      'accounts/:id',
      async (x) => {
        const forfeit = oneOf(x.query, 'forfeit', ['true', 'false']) === 'true'
        const { account } = await remove(await accountIn(gateway, x), forfeit)
        return json(account)
      },
      ['forfeit'],
    ),
  ]
}

const filters = ['name', 'external_id', 'status'] as const

/** Lists all accounts, or the deleted ones, or the one with the name or external id of the query: each is unique. */
async function listed({ accounts }: Gateway, { query }: Exchange): Promise<Answer> {
  const page = parseIdPage(query, 'acct')
  const [name, externalId, status] = filters.map((filter) => single(query, filter))
  if (status !== undefined) {
    if (status !== 'deleted') throw invalid('status', 'must be deleted, or left out')
    // Deleted accounts have neither name nor external id.
    const hasNames = name !== undefined || externalId !== undefined
    return json(hasNames ? listOf<Account>([], false) : await accounts.listDeleted(page))
  }
  if (name === undefined && externalId === undefined) return json(await accounts.listAccounts(page))
  const found = await accounts.findAccounts({ name, externalId })
  return json(
    listOf(
      found.map(({ account }) => account),
      false,
    ),
  )
}
