// The objects of the operator's API and of the health routes, by their titles in docs/api.md, as objects.ts has the
// public ones. They are not in /openapi.json, which describes the public port.

import {
  anyObject,
  flag,
  id,
  inner,
  listOf,
  number,
  objectOf,
  oneOf,
  orNull,
  seconds,
  text,
  texts,
  whole,
} from './fields.ts'
import type { Fields } from './fields.ts'
import { objects } from './objects.ts'

const words = text()

const { object, start, end, ...sums } = objects['Usage row']

const audited = {
  accounts: whole('How many accounts were checked.'),
  entries: whole('How many entries of the journal were added up.'),
}
const late = whole('How many settlements of this gateway came too late ([money.md](money.md)).')
const difference = {
  ref: text("The account's reference, part of its keys in Redis."),
  account_id: text(),
  what: text('What does not add up: `granted`, `spent`, …'),
  expected: orNull(whole('The sum of the journal; null for a charge that cannot be read.')),
  found: whole('The value in the account.'),
}

export const adminObjects: Readonly<Record<string, Fields>> = {
  Account: {
    id: id('acct', '`acct_…`'),
    object: oneOf('account'),
    name: text('Empty for a deleted account.'),
    plan: text(),
    status: oneOf(
      'active suspended deleting deleted',
      '`deleting`: its deletion has begun, and has to be called again if it was cut.',
    ),
    external_id: orNull(text('Null when there is none.')),
    metadata: texts('Texts by name.'),
    budget: orNull(
      objectOf('Budget', 'The [budget](#budget) of all its keys together, null for none.'),
    ),
    created_at: seconds(),
    'deleted_at?': seconds('Only of a deleted account.'),
  },
  'Account usage row': {
    object,
    start,
    end,
    'account_id?': id('acct', 'With `group_by=account` or `key`.'),
    ...sums,
  },
  Audit: {
    object: oneOf('audit'),
    ...audited,
    differences: listOf(
      anyObject(),
      'Empty when all is well: [differences](#difference), at most 1,000, and of one account at most 100.',
    ),
    difference_count: whole('How many there are, also of those that are not listed.'),
    late,
  },
  Difference: difference,
  'Audit progress': {
    object: oneOf('audit.progress'),
    ...audited,
    difference_count: whole('How many differences were found.'),
    total: whole('How many accounts there were to check when the audit began.'),
    cursor: orNull(id('acct', 'All accounts up to this one were checked; null for none.')),
  },
  'Audit difference': { object: oneOf('audit.difference'), ...difference },
  'Audit end': {
    object: oneOf('audit.end'),
    ...audited,
    difference_count: whole('How many differences there are.'),
    late,
  },
  'Configured model': {
    id: text(),
    object: oneOf('model'),
    aliases: listOf(words),
    endpoints: listOf(words),
    accepts: listOf(words),
    price: inner(
      {
        input: number(),
        output: number(),
        cached_input: number(),
        request: number('Balance tokens for each request.'),
      },
      'Balance tokens for each model token.',
    ),
    context_window: whole('Model tokens.'),
    max_output_tokens: whole('Model tokens.'),
    queue: whole('Requests of this gateway that wait for room at a target.'),
    targets: listOf(anyObject(), '[Targets](#target).'),
  },
  Target: {
    object: oneOf('target'),
    name: text('As in metrics and the log.'),
    url: text('Without its query.'),
    model: text("The backend's name of the model."),
    priority: whole(),
    weight: whole(),
    state: text(
      '`up`, `loading`, `unhealthy`, `open` or `half_open`: [targets](targets.md#a-target-that-fails).',
    ),
    since: seconds('When this gateway first saw the target in this state.'),
    open: whole('Requests under way from this gateway.'),
    failures: whole('Failures in a row.'),
  },
  Configuration: {
    object: oneOf('config'),
    file: text('Path of gateway.yaml.'),
    config: anyObject('With the keys of [configuration.md](configuration.md).'),
    marks: anyObject('By path: texts that change when a secret does.'),
  },
  Reload: {
    object: oneOf('reload'),
    changes: listOf(
      anyObject(),
      'Each with `path`, `from` (absent for a new key), `to` (absent for a removed one) and `needs_restart`. Both values of a secret are masked.',
    ),
  },
  Readiness: {
    status: { ...text(), kind: '`ready`, `not ready`' },
    redis: text('`ok`, or what is wrong.'),
    ledger: text('`ok`, or `not open`.'),
    spool: text('`ok`, or that the disk takes nothing and how many ledger writes wait in memory.'),
    draining: flag('True from SIGTERM on.'),
    'workers?': text(
      'Only with [workers](operating.md#workers): how many are ready, such as `2 of 2`.',
    ),
  },
}
