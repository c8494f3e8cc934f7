// The objects of the public API, by their titles in docs/api.md: every field, its type, and a sentence about it.
// A new field of an answer is a line here; docs/api.md and /openapi.json follow, and the tests of both and of the client
// libraries ask for it. The operator's objects are in admin-objects.ts.

import {
  either,
  flag,
  id,
  inner,
  listOf,
  nothing,
  number,
  objectOf,
  oneOf,
  orNull,
  ref,
  seconds,
  text,
  texts,
  textLike,
  whole,
} from './fields.ts'
import type { Fields } from './fields.ts'

const hex = '[0-9a-f]'

export const objects = {
  Session: {
    id: id('sess', '`sess_…`'),
    object: oneOf('chat.session'),
    created_at: seconds(),
    updated_at: seconds('Of the last change of the session or its messages.'),
    title: orNull(text('Null when none was given.')),
    model: orNull(
      text(
        'Id of the model for messages that name none; null: the first that serves chat and that the key may use.',
      ),
    ),
    'instructions?': orNull(text('Absent in lists.')),
    metadata: texts('Texts by name.'),
    message_count: whole('Questions and answers together.'),
    active_message_id: orNull(
      id('msg', 'The answer that is being generated now; null when there is none.'),
    ),
  },
  Message: {
    id: id('msg', '`msg_…`'),
    object: oneOf('chat.message'),
    session_id: id('sess'),
    role: oneOf('user assistant tool'),
    content: orNull(
      either(
        [text(), listOf(ref('Part'))],
        'Null when an assistant only called tools, or has no text yet. [Parts](#parts-of-a-message).',
      ),
    ),
    tool_calls: orNull(
      listOf(
        ref('Tool call'),
        '`{id, type: "function", function: {name, arguments}}`; null when there are none.',
      ),
    ),
    'tool_call_id?': text('Only of `tool`: the call whose result this is.'),
    'name?': text('Only if the client gave one.'),
    reasoning: orNull(text('The reasoning that the model showed; null when there was none.')),
    status: oneOf(
      'in_progress completed cancelled failed incomplete',
      "The client's own messages are `completed`.",
    ),
    finish_reason: orNull(text("The backend's; null when the answer has no complete end.")),
    model: orNull(text("Null on the client's messages.")),
    usage: orNull(
      inner(
        {
          prompt_tokens: whole('Model tokens.'),
          completion_tokens: whole('Model tokens.'),
          total_tokens: whole('The sum of both.'),
          estimated: flag('True when the gateway counted, because the backend reported nothing.'),
        },
        "Null on the client's messages, and until the answer ends.",
      ),
    ),
    cost: orNull(whole('Balance tokens; null whenever `usage` is null.')),
    error: orNull(
      inner(
        {
          message: text(),
          type: text(),
          param: nothing('Always null.'),
          code: text(),
        },
        'Set when the answer ended with an error frame; null otherwise, also when it was cancelled.',
      ),
    ),
    created_at: seconds(),
    completed_at: orNull(seconds('Null while the answer is being generated.')),
  },
  File: {
    id: id('file', '`file_…`'),
    object: oneOf('file'),
    bytes: whole(),
    created_at: seconds(),
    expires_at: orNull(seconds('Null: never.')),
    filename: text('Cleaned: no path, no control characters.'),
    purpose: text(),
    status: oneOf('processed'),
    session_id: id('sess'),
    content_type: text('The gateway finds it from the bytes, not from what the client said.'),
    sha256: textLike(`^${hex}{64}$`, '64 hex digits.'),
  },
  Transaction: {
    id: id('txn', '`txn_…`'),
    object: oneOf('billing.transaction'),
    type: oneOf(
      'topup charge correction adjustment refund repayment allowance',
      '[money.md](money.md#books)',
    ),
    amount: whole('Balance tokens, signed. Of a charge: the part that was paid, 0 or below.'),
    balance_after: whole('Balance tokens.'),
    'model?': text('Of charges and corrections.'),
    'key_id?': text('Of charges and corrections: the key of the request.'),
    'price?': inner(
      {
        input: number('For a token of the prompt.'),
        output: number('For a token of the answer.'),
        cached_input: number('For a token of the prompt that the backend had cached.'),
        request: number('For the request.'),
      },
      'Of charges and corrections: the price that was applied, in balance tokens.',
    ),
    'usage?': inner(
      {
        prompt_tokens: whole('Model tokens.'),
        completion_tokens: whole('Model tokens.'),
        total_tokens: whole('The sum of both.'),
        cached_tokens: whole('Of the prompt.'),
      },
      'Of charges and corrections. Of a correction: of the whole request.',
    ),
    'charged_before?': whole(
      'Of corrections: what this request had been charged before, owed and waived included.',
    ),
    'estimated?': flag('Of charges: true when the gateway counted.'),
    'cut?': flag('True when the ledger ended the answer: the money ran out, or the hold was lost.'),
    'owed?': whole('Balance tokens that were used and could not be paid at that time.'),
    'allowance?': whole(
      'The part that the [allowance](money.md#allowances) paid; below 0 in a correction.',
    ),
    'waived?': whole('Used in shadow mode and never to be paid; below 0 in a correction.'),
    'implausible?': whole(
      'Balance tokens for impossible usage that a backend reported; not charged.',
    ),
    'request_id?': text('Of charges and corrections: `X-Request-Id` of the answer.'),
    'session_id?': text('Of messages of a session.'),
    'message_id?': text('Of messages of a session.'),
    'reference?': text('Of top-ups: the id of the payment.'),
    'note?': text("The operator's note."),
    created_at: seconds(),
  },
  'Usage row': {
    object: oneOf('billing.usage'),
    start: seconds('Beginning of the bucket.'),
    end: seconds('Its end, excluded.'),
    'model?': text('With `group_by=model`.'),
    'key_id?': text('With `group_by=key`.'),
    requests: whole(),
    prompt_tokens: whole('Model tokens.'),
    cached_tokens: whole('Of the prompt.'),
    completion_tokens: whole('Model tokens.'),
    cost: whole('Balance tokens, including what is owed.'),
    'waived?': whole('Of `cost`: waived in shadow mode.'),
  },
  Balance: {
    object: oneOf('billing.balance'),
    unit: oneOf('token', 'All amounts are balance tokens.'),
    balance: whole('`granted` minus `spent`.'),
    reserved: whole('What running requests hold.'),
    available: whole(
      '`balance` minus `reserved`, or what `budget` or `key_budget` leaves if that is less; never below 0.',
    ),
    granted: whole('All top-ups, adjustments and allowances, ever.'),
    spent: whole('All that was paid for charges, less refunds, ever.'),
    owed: whole('Used and not paid yet. Tokens that become available pay this first.'),
    allowance: orNull(
      objectOf('Allowance', "The account's [allowance](#allowance), null for none."),
    ),
    budget: orNull(objectOf('Budget', "The account's [budget](#budget), null for none.")),
    key_budget: orNull(
      objectOf('Budget', 'The [budget](#budget) of the key that asks, null for none or no key.'),
    ),
    updated_at: seconds('When this balance was read.'),
  },
  Allowance: {
    tokens: whole('What each window begins with.'),
    every: orNull(oneOf('day week month', 'Null: the plan gives no more.')),
    left: whole('Of `balance`.'),
    renews_at: orNull(
      seconds('When the window ends; null while the account is suspended and has had none.'),
    ),
  },
  Budget: {
    tokens: whole(),
    every: oneOf('day week month'),
    used: whole(
      'Charges of this window, and what running requests hold. May be more than `tokens` if a request cost more than its hold.',
    ),
    renews_at: orNull(
      seconds('When the window ends; null while none runs: the next request begins one.'),
    ),
  },
  Model: {
    id: text('An id or an alias of gateway.yaml.'),
    object: oneOf('model'),
    created: seconds('When the gateway started.'),
    owned_by: oneOf('tollgate'),
    price: inner(
      {
        input: number(),
        output: number(),
        cached_input: number('For tokens of the prompt that the backend had cached.'),
        request: number('Balance tokens for each request.'),
      },
      'Balance tokens for each model token ([money.md](money.md#what-a-request-costs)).',
    ),
    context_window: whole('Model tokens of prompt and answer together.'),
    max_output_tokens: whole('The most model tokens of an answer.'),
    accepts: listOf(text(), '`text`, `image` …: what messages of a session may have attached.'),
    endpoints: listOf(
      text(),
      '`chat`, `embeddings` …: what of `/v1` the model serves. Sessions need `chat`.',
    ),
  },
  List: {
    object: oneOf('list'),
    data: listOf({}, 'The rows.'),
    first_id: orNull(text('Id of the first row; null when there are none.')),
    last_id: orNull(text('Id of the last row; null when there are none.')),
    has_more: flag('More rows follow in this direction, also where this page has none.'),
  },
  Error: {
    error: inner({
      message: text('For people; may change.'),
      type: text('[errors.md](errors.md)'),
      param: orNull(text('The field at fault; null when no field is at fault.')),
      code: text('The field to switch on: [errors.md](errors.md)'),
      'available?': whole(
        'With `insufficient_balance`, `budget_exceeded` and `account_not_empty`: balance tokens.',
      ),
      'needed?': whole('With 402: balance tokens.'),
      'owed?': whole(
        'With `insufficient_balance`, `budget_exceeded` and `account_not_empty`: balance tokens.',
      ),
      'renews_at?': seconds('With `budget_exceeded`: when the budget is renewed.'),
    }),
    request_id: text('The same as `X-Request-Id`.'),
    'message_id?': text('With `session_busy`: the message that is being generated.'),
  },
} satisfies Readonly<Record<string, Fields>>
