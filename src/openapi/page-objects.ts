// The objects of the account page's own API, by their titles in docs/api.md.

import { flag, id, inner, listOf, objectOf, oneOf, orNull, seconds, text, whole } from './fields.ts'
import type { Field, Fields } from './fields.ts'
import { objects } from './objects.ts'

const inUse = (says: string): Field => inner({ limit: whole(), used: whole() }, says)
const words = text()

const { price, context_window, max_output_tokens, accepts } = objects.Model

export const pageObjects: Readonly<Record<string, Fields>> = {
  Key: {
    id: id('key', '`key_…`'),
    object: oneOf('api_key'),
    account_id: text(),
    name: text('Empty when none was given.'),
    hint: text("`tg_live_…` and the last four characters of the key's text."),
    scopes: listOf(words, 'Of `chat`, `sessions`, `files`, `billing`.'),
    models: listOf(words, 'Ids of models; `*` is all.'),
    limits: inner(
      {
        'requests_per_minute?': whole(),
        'tokens_per_minute?': whole('Model tokens.'),
        'concurrency?': whole('Generations at the same time.'),
      },
      "Limits that are narrower than the plan's; else empty.",
    ),
    budget: orNull(objectOf('Budget', 'The [budget](#budget) of the key, null for none.')),
    expires_at: orNull(seconds('Null: never.')),
    revoked_at: orNull(seconds('Null: not revoked.')),
    last_used_at: orNull(seconds('Null: never used.')),
    created_at: seconds(),
    status: oneOf('active expired revoked'),
    'key?': text("The key's text; only in the answer to creating or rotating it."),
  },
  Customer: {
    object: oneOf('account.me'),
    id: id('acct', '`acct_…`'),
    name: text(),
    plan: text(),
    status: oneOf('active', 'Always: a suspended account has no access.'),
    currency: orNull(
      inner(
        {
          code: text('Such as `EUR`.'),
          tokens: whole('How many balance tokens one unit of it is worth.'),
        },
        '`plugins.account.currency`.',
      ),
    ),
    low_balance: flag('Fewer balance tokens are available than `plugins.account.low_balance`.'),
    return_url: orNull(text('Where the page leads back to.')),
    models: listOf(
      inner({ id: text(), price, accepts, context_window, max_output_tokens }),
      'Models that chat and that the plan allows: `id`, `price`, `accepts`, `context_window`, `max_output_tokens`, as [models](#model) have them.',
    ),
    login: oneOf('link oidc', 'How the customer has logged in.'),
    playground_key_id: orNull(
      text(
        'The `key_id` of all keys of the playground in usage and transactions; null before the first.',
      ),
    ),
  },
  'Limits in use': {
    object: oneOf('account.limits'),
    plan: text(),
    models: listOf(words, 'Ids of models; `*` is all.'),
    requests_per_minute: inUse('Requests to models in this minute: `limit` and `used`.'),
    tokens_per_minute: inUse('Model tokens, in the same way.'),
    concurrency: inUse('Generations that run.'),
    storage: inUse('Bytes of files and sessions; the limit depends on the balance.'),
    keys: inUse('Keys in the list.'),
    resets_at: seconds('When this minute ends.'),
  },
  'Playground key': {
    object: oneOf('account.playground_key'),
    id: text('`key_…`, the same for all of an account.'),
    key: text("The key's text."),
    scopes: listOf(words, '`chat`, `sessions`, `files`.'),
    expires_at: seconds(),
  },
  'Login screen': {
    object: oneOf('account.config'),
    oidc: orNull(
      inner(
        {
          label: text('What the button says after "Log in with".'),
          start: text('The path to go to: `/account/oidc/start`.'),
        },
        'Null when no identity provider is configured.',
      ),
    ),
  },
  Login: { object: oneOf('account.login'), account_id: text() },
  Logout: {
    object: oneOf('account.logout'),
    url: orNull(text('Where to log out of the identity provider, for those who came from there.')),
  },
}
