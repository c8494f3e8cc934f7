// The routes of the account page, for docs/api.md and the OpenAPI document: its files, its log-in, and the API that takes
// its cookie.

import { creation, renaming, rotation } from '../accounts/key-fields.ts'
import { entering } from '../portal/secrets.ts'
import { billingRoutes } from './billing-routes.ts'
import { zodBody } from './bodies.ts'
import { listOfObjects, ref } from './fields.ts'
import { json } from './operation.ts'
import type { Codes, GoodAnswer, Operation, Operations } from './operation.ts'
import { pageQuery } from './queries.ts'

const guarded = [
  'Content-Security-Policy',
  'X-Content-Type-Options',
  'Referrer-Policy',
  'Cross-Origin-Opener-Policy',
  'Cross-Origin-Resource-Policy',
]
const unchanged: GoodAnswer = {
  says: 'by `If-None-Match`, the browser has it already.',
  headers: ['ETag', ...guarded],
}
const noBody = {
  kind: 'json',
  schema: { type: 'object' },
  isOptional: true,
} as const
const ofKey: Codes = { key_not_found: '' }

const one = (title: string, says: string, more: readonly string[] = []): GoodAnswer => ({
  says,
  content: json(ref(title)),
  headers: [...guarded, ...more],
})

function file(named: Pick<Operation, 'id' | 'title' | 'params'>): Operation {
  return {
    ...named,
    access: 'anybody',
    headers: ['If-None-Match'],
    replies: {
      200: { says: 'the file.', content: { '*/*': {} }, headers: ['ETag', ...guarded] },
      304: unchanged,
    },
  }
}

/** A call that changes something comes from the page itself. */
function write(operation: Omit<Operation, 'access'>): Operation {
  return { ...operation, access: 'cookie', headers: ['Origin'] }
}

/** The same answer and refusals as those of the billing API. */
function as(
  line: keyof typeof billingRoutes,
  { id, says }: { id: string; says: string },
): Operation {
  const { title, query, replies, codes } = billingRoutes[line] as Operation
  const content = replies[200]?.content
  return {
    id,
    title,
    access: 'cookie',
    ...(query && { query }),
    replies: { 200: { says, headers: guarded, ...(content && { content }) } },
    ...(codes && { codes }),
  }
}

export const pageRoutes: Operations = {
  'GET /account': {
    id: 'getAccountPage',
    title: 'The page',
    access: 'anybody',
    headers: ['If-None-Match'],
    text: 'Views are behind `#`, so that this is the only address. Every answer of a route under `/account` has a `Content-Security-Policy` without inline code or other hosts.',
    replies: {
      200: {
        says: 'HTML.',
        content: { 'text/html; charset=utf-8': { type: 'string' } },
        headers: ['ETag', ...guarded],
      },
      304: unchanged,
    },
  },
  'GET /account/:file': file({
    id: 'getAccountFile',
    title: 'A file of the page',
    params: { file: 'The name of a script, style or picture of the page, such as `style.css`.' },
  }),
  'GET /account/packages/*': file({
    id: 'getAccountPackageFile',
    title: 'A script or style of a library that the page uses',
    params: { '*': 'Its name, such as `uplot.js`; it may have slashes.' },
  }),
  'GET /account/api/config': {
    id: 'getLoginScreen',
    title: 'What the log-in screen can offer',
    access: 'anybody',
    replies: { 200: one('Login screen', 'what the [log-in screen](#login-screen) can offer.') },
  },
  'POST /account/api/login': {
    id: 'logIn',
    title: 'Log in with a portal link',
    access: 'anybody',
    headers: ['Origin'],
    body: { kind: 'json', schema: zodBody(entering) },
    text: '`{"link": "…"}`, what the address of a portal link has after `#link=`. If the browser had another log-in, that one is ended.',
    replies: {
      200: one('Login', 'the [log-in](#login), and the cookie. A link lets in once.', [
        'Set-Cookie',
      ]),
    },
    codes: {
      invalid_parameter: '',
      missing_parameter: '',
      unknown_parameter: '',
      invalid_link:
        ', the same for a link that was used, has expired, was made before the account was suspended, or never was one',
      origin_not_allowed: '',
      rate_limit_exceeded: ' after too many wrong ones from an address',
      ledger_unavailable: '',
    },
  },
  'POST /account/api/logout': write({
    id: 'logOut',
    title: 'Log out',
    body: noBody,
    replies: {
      200: one(
        'Logout',
        'the [log-out](#logout). The log-in ends, with its keys of the playground.',
        ['Set-Cookie'],
      ),
    },
  }),
  'GET /account/oidc/start': {
    id: 'startOidc',
    title: 'Go to the identity provider',
    access: 'anybody',
    text: 'Only if `plugins.account.oidc` is set.',
    replies: {
      303: {
        says: 'to the identity provider, with a cookie for ten minutes, or to `/account#error=login_unavailable` if it cannot be reached.',
        headers: ['Location', 'Set-Cookie', ...guarded],
      },
    },
  },
  'GET /account/oidc/callback': {
    id: 'finishOidc',
    title: 'Come back from the identity provider',
    access: 'anybody',
    text: 'Only if `plugins.account.oidc` is set. The provider sends the browser here after the log-in, with its own query.',
    replies: {
      303: {
        says: 'to `/account`, with the cookie of the log-in, or to `/account#error=` and a code: `login_refused`, `account_suspended`, `login_unavailable`, `ledger_unavailable`.',
        headers: ['Location', 'Set-Cookie', ...guarded],
      },
    },
    codes: {
      rate_limit_exceeded: ' after too many refused log-ins of an address',
      concurrency_limit_exceeded:
        ' while one address has half of all the log-ins that may run at a time',
      overloaded: ' while too many run',
    },
    refusesWithPage: true,
    after:
      'These errors are shown as pages, with `Retry-After`. Loading the page again later goes on with the same log-in.',
  },
  'GET /account/api/me': {
    id: 'getCustomer',
    title: 'Who is logged in',
    access: 'cookie',
    replies: { 200: one('Customer', 'the [customer](#customer).') },
  },
  'GET /account/api/keys': {
    id: 'listOwnKeys',
    title: 'List the keys',
    access: 'cookie',
    query: pageQuery('key'),
    replies: {
      200: {
        says: "a list of the account's [keys](#key), including revoked and expired ones.",
        content: json(listOfObjects('Key')),
        headers: guarded,
      },
    },
  },
  'POST /account/api/keys': write({
    id: 'createOwnKey',
    title: 'Make a key',
    body: { kind: 'json', schema: zodBody(creation) },
    repeats: true,
    text: 'The fields are those of [`POST /admin/accounts/:id/keys`](#post-adminaccountsidkeys), but the models must be models of the plan, and limits at most those of the plan.',
    replies: { 201: one('Key', 'the [key](#key) with its text in `key`.') },
    codes: {
      key_limit_reached:
        ' if the list has `plugins.account.max_keys` keys (a key that was revoked or has expired still counts for a day)',
    },
  }),
  'PATCH /account/api/keys/:id': write({
    id: 'renameOwnKey',
    title: 'Rename a key',
    body: { kind: 'json', schema: zodBody(renaming) },
    text: '`{"name": "…"}`.',
    replies: { 200: one('Key', 'the [key](#key).') },
    codes: ofKey,
  }),
  'DELETE /account/api/keys/:id': write({
    id: 'revokeOwnKey',
    title: 'Revoke a key',
    replies: { 200: one('Key', 'the [key](#key), which is revoked.') },
    codes: { ...ofKey, unsupported_media_type: ' without `Content-Type`' },
  }),
  'POST /account/api/keys/:id/rotate': write({
    id: 'rotateOwnKey',
    title: 'Make a key in place of another',
    body: { kind: 'json', schema: zodBody(rotation) },
    repeats: true,
    text: 'As [`POST /admin/keys/:id/rotate`](#post-adminkeysidrotate): `{"grace": 3600}`, seconds for which the old key stays valid.',
    replies: { 201: one('Key', 'the new [key](#key).') },
    codes: { ...ofKey, key_limit_reached: '' },
  }),
  'POST /account/api/playground-key': write({
    id: 'createPlaygroundKey',
    title: 'Make a key for the playground',
    body: noBody,
    text: 'The page calls the public API with this key. It may use all models of the plan, works for an hour, is in no list and ends when its log-in ends. An account has at most half as many of these keys as `plugins.account.max_logins`: a further one ends the oldest. An account that makes more than that in a minute gets 429 `rate_limit_exceeded`.',
    replies: { 201: one('Playground key', 'a [playground key](#playground-key).') },
  }),
  'GET /account/api/balance': as('GET /api/billing/balance', {
    id: 'getOwnBalance',
    says: 'the [balance](#balance).',
  }),
  'GET /account/api/transactions': as('GET /api/billing/transactions', {
    id: 'listOwnTransactions',
    says: 'a list of [transactions](#transaction), or [CSV](#csv); the query is that of [the billing API](#transactions-query).',
  }),
  'GET /account/api/usage': as('GET /api/billing/usage', {
    id: 'getOwnUsage',
    says: 'a list of [usage rows](#usage-row), or [CSV](#csv); the query is that of [the billing API](#usage-query).',
  }),
  'GET /account/api/limits': {
    id: 'getLimitsInUse',
    title: 'The limits, and what of them is in use',
    access: 'cookie',
    replies: { 200: one('Limits in use', 'the [limits](#limits-in-use).') },
  },
}
