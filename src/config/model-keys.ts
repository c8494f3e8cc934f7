// What gateway.yaml may have under `models:`: each key with its default and its sentence.

import { endpointNames } from './endpoints.ts'
import { decimal, duration, pemFile, withLater, z } from './schema.ts'
import {
  backendKey,
  backendUrl,
  forwardedHeader,
  headerName,
  headerValue,
  healthPath,
  mediaHost,
  modelId,
  parameterName,
} from './words.ts'

const count = () => z.int().min(1)

export const breaker = z.strictObject({
  failures: count()
    .max(1_000_000)
    .default(5)
    .describe('After so many failures in a row, the target is left alone.'),
  cool_down: duration()
    .prefault('30s')
    .describe(
      'The longest time between two requests that try such a target. The first try is after a second; after each that fails, the time doubles. If no other target can be asked, one request a second tries.',
    ),
})

export const healthCheck = z.strictObject({
  path: healthPath()
    .default('/health')
    .describe("What is asked with GET, from the root of the target's host; it may carry a query."),
  interval: duration()
    .prefault('10s')
    .describe('Between two checks; up to a tenth more or less, by chance.'),
  timeout: duration().prefault('5s').describe('An answer that takes longer is a failure.'),
  fails: count()
    .max(1000)
    .default(3)
    .describe('After so many failures in a row, the target is unhealthy.'),
  passes: count()
    .max(1000)
    .default(2)
    .describe('After so many passes in a row, it is healthy again.'),
})

export const queue = z.strictObject({
  length: z
    .int()
    .min(0)
    .max(100_000)
    .default(256)
    .describe(
      'So many requests may wait. When it is full, the account with most of them gives up its newest for an account that has fewer.',
    ),
  wait: duration().prefault('10s').describe('A request that has waited so long is refused.'),
})

/** Of a model, or of one of its targets. */
const maxConcurrency = () => count().max(1_000_000).optional()

export const targetBlock = withLater(
  z.strictObject({
    url: backendUrl()
      .optional()
      .describe("The backend's OpenAI-compatible base URL, ending in /v1; it may carry a query."),
    demo: z
      .literal(true)
      .optional()
      .describe('In place of `url`: the built-in model, which needs no key.'),
    model: modelId()
      .optional()
      .describe("The backend's name of the model; by default the id that clients send."),
    key: backendKey().optional().describe('Credential for the backend, best as `${NAME}`.'),
    key_header: headerName()
      .optional()
      .describe('Header that carries the key as it is; otherwise `authorization: Bearer <key>`.'),
    ca: pemFile('certificate file')
      .optional()
      .describe('PEM file of the authority that signed the backend, if no public one did.'),
    headers: z
      .record(headerName(), headerValue())
      .default({})
      .describe('More headers for the backend; their values are masked when printed.'),
    weight: count()
      .max(1000)
      .default(1)
      .describe('Share of the requests among targets of the same priority.'),
    priority: count()
      .max(1000)
      .default(1)
      .describe('Targets with the lowest number are asked first, others when these have failed.'),
    max_tokens_field: z
      .enum(['max_tokens', 'max_completion_tokens'])
      .optional()
      .describe(
        'The one field in which the backend gets its output limit; by default `max_tokens`.',
      ),
    include_usage: z
      .boolean()
      .default(true)
      .describe('Ask for usage in streams; false for a backend that refuses `stream_options`.'),
    continuous_usage_stats: z
      .boolean()
      .default(false)
      .describe(
        'Ask for usage in every chunk of a stream, if the backend supports it (vLLM, SGLang). A client that leaves is charged by the last report. Clients see the usage in the chunks.',
      ),
    cache_salt: z
      .boolean()
      .default(false)
      .describe(
        'Send a `cache_salt` for each account: vLLM and SGLang then share no cached prompts between accounts.',
      ),
    breaker: z
      .strictObject({
        failures: breaker.shape.failures
          .unwrap()
          .optional()
          .describe("In place of the model's `breaker.failures`."),
        cool_down: duration().optional().describe("In place of the model's `breaker.cool_down`."),
      })
      .default({})
      .describe("What this target has in place of the model's `breaker`."),
    health_check: healthCheck
      .optional()
      .describe(
        'Asks the target at intervals whether it is well, from each process; `{}` takes the defaults. Without it, the gateway knows a target only by the requests that it serves.',
      ),
    max_concurrency: maxConcurrency().describe(
      'Requests that the target has under way at most, from each gateway (its workers have a part each); without it any number.',
    ),
  }),
  ['proxy'],
)

const target = z.union([z.literal('demo'), targetBlock], {
  error: 'write demo, or a block such as {url: http://127.0.0.1:8000/v1}',
})

export const price = z.strictObject({
  input: decimal().prefault(1).describe('Balance tokens for a token of the prompt.'),
  output: decimal().prefault(1).describe('Balance tokens for a generated token.'),
  cached_input: decimal()
    .prefault(1)
    .describe(
      'Balance tokens for a prompt token that the backend had cached; by default the price of `input`.',
    ),
  request: decimal().prefault(0).describe('Balance tokens for each request, besides its tokens.'),
})

export const cost = z.strictObject({
  input: decimal().prefault(0).describe('What you pay for a token of the prompt.'),
  output: decimal().prefault(0).describe('What you pay for a generated token.'),
  cached_input: decimal()
    .prefault(0)
    .describe(
      'What you pay for a prompt token that the backend had cached; by default the cost of `input`.',
    ),
})

export const timeouts = z.strictObject({
  connect: duration().prefault('10s').describe('Until the connection to the backend is made.'),
  first_token: duration()
    .prefault('600s')
    .describe('Until the first content of a stream. A role or an empty chunk does not count.'),
  idle: duration().prefault('300s').describe('Between two chunks of content.'),
  total: duration()
    .prefault('1800s')
    .describe(
      'For the whole generation; the only time limit of an answer that is not streamed. An answer that takes longer is free.',
    ),
})

/** The longest `flush`: an event may wait this long, so that several go out in one write. */
export const longestFlushMs = 1000

export const defaultContextWindow = 128_000
export const defaultMaxOutputTokens = 4096

export const model = z.strictObject({
  aliases: z
    .array(modelId())
    .default([])
    .describe('Other ids by which clients may name the model.'),
  targets: z.array(target).min(1).describe('Backends that serve the model; `demo` is built in.'),
  price: price.prefault({}).describe('What the model costs, decimals with at most 6 places.'),
  cost: cost
    .optional()
    .describe(
      'What you pay the backend, in balance tokens as in `price`, only for the metric `tollgate_cost_tokens_total`.',
    ),
  context_window: count()
    .max(1_000_000_000)
    .default(defaultContextWindow)
    .describe('Tokens of prompt and output together. A longer prompt is refused by the backend.'),
  max_output_tokens: count()
    .max(1_000_000_000)
    .default(defaultMaxOutputTokens)
    .describe(
      'The most that a choice may generate, also without a limit from the client; at most `context_window`.',
    ),
  accepts: z
    .array(z.enum(['text', 'image', 'audio', 'file']))
    .min(1)
    .default(['text'])
    .describe('Kinds of content that the model takes in sessions; on /v1 the backend decides.'),
  endpoints: z
    .array(z.enum(endpointNames))
    .min(1)
    .default(['chat'])
    .describe('The endpoints of /v1 that the model serves.'),
  timeouts: timeouts.prefault({}).describe('How long the backend may take.'),
  flush: duration({ min: 0, max: longestFlushMs })
    .optional()
    .describe('In place of `limits.flush`, for this model.'),
  retry_on_timeout: z
    .boolean()
    .default(false)
    .describe(
      'Ask another target when one has sent no content within `timeouts.first_token`: a second wait, and a second generation that the operator may pay for.',
    ),
  breaker: breaker
    .prefault({})
    .describe('When a target that fails is left alone (docs/targets.md).'),
  max_concurrency: maxConcurrency().describe(
    'Requests that all targets together have under way at most, from each gateway (its workers have a part each); more wait in `queue`.',
  ),
  queue: queue.prefault({}).describe('Where requests wait when all targets are full.'),
  complete_when: z
    .enum(['finish_reason', 'done'])
    .default('finish_reason')
    .describe('What marks a stream as complete; `done` for a backend that sends no finish_reason.'),
  forward_headers: z
    .array(forwardedHeader())
    .default([])
    .describe("The client's headers that are passed on to the backend."),
  extra_parameters: z
    .array(parameterName())
    .default([])
    .describe(
      'Parameters that pass in addition to those of docs/parameters.md, at your price and risk; `*` is all.',
    ),
  remote_media: z
    .array(mediaHost())
    .default([])
    .describe(
      'Hosts whose https addresses of media are passed to the backend; `*.example.com` is all hosts below it.',
    ),
  bytes_per_token: z
    .number()
    .min(0.1)
    .max(100)
    .default(2.5)
    .describe('Bytes for each token, in the estimate of a prompt before it is sent.'),
  image_tokens: count()
    .max(1_000_000)
    .default(1500)
    .describe(
      'Prompt tokens of an image of one megapixel or less; a larger image counts in proportion, up to 64 times as much.',
    ),
  hidden_reasoning: z
    .boolean()
    .default(false)
    .describe('The model generates tokens that it does not show; only its usage says how many.'),
  on_leave: z
    .enum(['abort', 'finish'])
    .optional()
    .describe(
      'When the client leaves or cancels: `abort` stops the backend and charges what was seen, `finish` reads the answer to its usage. By default `finish` with `hidden_reasoning` and for answers that are not streamed, otherwise `abort`.',
    ),
})

const modelsHelp = 'write at least one model, such as demo: {targets: [demo]}'

const listHelp =
  'is a list; write a block with a key for each model, such as demo: {targets: [demo]}'

export const models = z
  .record(modelId(), model, {
    error: ({ input }) => (Array.isArray(input) ? listHelp : modelsHelp),
  })
  .refine((all) => Object.keys(all).length > 0, { error: modelsHelp })

export type ModelKeys = z.output<typeof model>
export type TargetKeys = z.output<typeof target>
