// Everything that a plan may have in gateway.yaml: each key with its default and its sentence.

import { everies } from '../budget.ts'
import { bytes, z } from './schema.ts'

const count = () => z.int().min(1)

const allowance = z.strictObject({
  tokens: z
    .int()
    .min(1)
    .describe('Balance tokens that an account has at the beginning of each window.'),
  every: z
    .enum(everies)
    .default('month')
    .describe(
      'The window: a calendar day, a week from Monday, or a month, in `metering.time_zone`.',
    ),
  rollover: z
    .boolean()
    .default(false)
    .describe('Whether what is left at the end of a window stays; else it is taken back.'),
})

export const plan = z.strictObject({
  requests_per_minute: count()
    .default(600)
    .describe('Requests a minute of one account: so many that ask a model, and as many others.'),
  tokens_per_minute: count()
    .default(400_000)
    .describe(
      'Model tokens a minute of one account. Without `max_tokens`, the output is limited so that it fits.',
    ),
  concurrency: count().default(20).describe('Generations of one account at the same time.'),
  models: z
    .array(z.string().min(1))
    .default(['*'])
    .describe('Models that the plan may use, by id or alias; `*` is all.'),
  storage: bytes({ min: 0 })
    .prefault('10GiB')
    .describe('All files and sessions of one account together.'),
  storage_unpaid: bytes({ min: 0 })
    .prefault('100MiB')
    .describe('The same for an account whose balance is 0; at most `storage`.'),
  allowance: allowance
    .optional()
    .describe('Balance tokens that each account gets anew in each window, spent before the rest.'),
})

const planName = z.string().regex(/^[A-Za-z0-9_.-]{1,64}$/, {
  error: 'write a plan name of 1 to 64 letters, digits, _ . -',
})

export const plans = z.record(planName, plan)
