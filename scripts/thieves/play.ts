// Plays one strategy on an account of its own and judges it: was all usage paid for, or is it owed? For an honest
// client it also checks that the client did not pay too much.

import { randomBytes } from 'node:crypto'
import type { Account, OwnProcess } from '../../test/fixtures/gateway.ts'
import { balanceOf } from '../../test/fixtures/money.ts'
import type { Random } from '../../test/fixtures/random.ts'
import { eventually } from '../../test/fixtures/until.ts'
import { ask } from './client.ts'
import type { Answered, Leaving } from './client.ts'
import { modeOf } from './models.ts'
import type { Mount, Strategy } from './strategy.ts'
import { inFlightTokens, runawayTokens } from './truth.ts'
import type { Truth } from './truth.ts'
import type { World } from './world.ts'

/** One line of the result table. */
export interface Result {
  readonly name: string
  readonly item: number
  readonly backend: string
  readonly ending: string
  /** Requests that the backend received. */
  readonly requests: number
  readonly truth: number
  readonly paid: number
  readonly owed: number
  /** Empty when all is as it should be. */
  readonly fault: string
  /** The answer of the gateway. */
  readonly said: string
}

const manyTokens = 20_000_000
/** Twice the 16 tokens that they ask for, plus 64. */
const plausibleTokens = 96
/** The error of counting in pieces, for a client that left before a report: a cut word is a token more or less. */
const countingNoise = 0.002
const neverReportsShare = 0.95
const honestShare = 1.3

const paths: Readonly<Record<Mount, string>> = {
  v1: '/v1/chat/completions',
  completions: '/v1/completions',
  embeddings: '/v1/embeddings',
  rerank: '/v1/rerank',
  session: '/api/chat/sessions',
  cancel: '/api/chat/sessions',
}

export async function play(world: World, strategy: Strategy, random: Random): Promise<Result> {
  const { gateways, truths } = world
  const gateway = gateways[random(2)] ?? gateways[0]
  const account = strategy.account ?? (await gateway.account(strategy.balance ?? manyTokens))
  const trace = randomBytes(16).toString('hex')
  const truth = truths.of(trace)
  const body = bodyOf(strategy, random)
  const answered = await send(gateway, account, { strategy, body, trace, truth })
  await truth.idle()
  const { spent, owed, balance } = await settledBalance(gateway, account)
  const { name, item, model, mount = 'v1', leaving } = strategy
  const line = {
    name,
    item,
    backend: model,
    ending: endingOf(leaving, mount),
    requests: truth.requests,
    truth: truth.cost,
    paid: spent,
    owed,
    said: `${answered.status} ${answered.code}`.trim(),
  }
  const fault = balance < 0 ? 'a negative balance' : faultOf(strategy, truth, spent + owed)
  return { ...line, fault }
}

/** Resolves with the balance when the account has no hold any more. */
export function settledBalance(gateway: OwnProcess, account: Account) {
  return eventually(async () => {
    const balance = await balanceOf(gateway, account)
    return balance.reserved === 0 ? balance : undefined
  }, 60_000)
}

function bodyOf(strategy: Strategy, random: Random): string {
  const body = strategy.body(random)
  return typeof body === 'string' ? body : JSON.stringify({ model: strategy.model, ...body })
}

interface Sending {
  readonly strategy: Strategy
  readonly body: string
  readonly trace: string
  readonly truth: Truth
}

async function send(
  gateway: OwnProcess,
  { key }: Account,
  { strategy, body, trace, truth }: Sending,
): Promise<Answered> {
  const { mount = 'v1', leaving } = strategy
  const asking = { url: gateway.url, path: paths[mount], key, body, trace, leaving, truth }
  if (mount !== 'session' && mount !== 'cancel') return ask(asking)
  const made = await gateway.call(paths.session, key, {})
  const { id } = (await made.json()) as { readonly id: string }
  const cancel = async (location: string) => {
    await (await gateway.call(`${location}/cancel`, key, '')).text()
  }
  const isCancel = mount === 'cancel' || leaving.at !== 'end'
  return ask({ ...asking, path: `${paths.session}/${id}/messages`, ...(isCancel && { cancel }) })
}

function faultOf(strategy: Strategy, truth: Truth, charged: number): string {
  const { usage, price, boundless } = modeOf(strategy.model)
  const inFlight = Math.min(truth.afterLeave, inFlightTokens) * (price?.output ?? 1)
  const counted = truth.hasLeft ? 1 - countingNoise : 1
  const share = usage === 'never' ? neverReportsShare : counted
  const faults: string[] = []
  // The gateway stops what runs beyond twice the bound; the customer does not pay for that part.
  const beyond = boundless
    ? Math.max(0, truth.completion - plausibleTokens) * (price?.output ?? 1)
    : 0
  if (charged < Math.floor((truth.cost - inFlight - beyond) * share)) faults.push('stolen')
  const most = strategy.isHonest ? truth.cost * honestShare : (strategy.mostTokens ?? Infinity)
  if (charged > most) faults.push('overcharged')
  // A runaway must be stopped also when it costs nothing.
  if (boundless && truth.completion > runawayTokens) faults.push('ran away')
  if (truth.reached.size > 0) faults.push(`reached: ${[...truth.reached].join(', ')}`)
  return faults.join('; ')
}

function endingOf(leaving: Leaving, mount: Mount): string {
  const where = mount === 'cancel' || mount === 'session' ? `${mount}, ` : ''
  switch (leaving.at) {
    case 'end':
      return `${where}stays`
    case 'content':
      return `${where}after ${leaving.nth} events`
    case 'last':
      return `${where}at the last word`
    case 'finish':
      return `${where}after the finish`
    case 'made':
      return `${where}before the answer`
    case 'time':
      return `${where}after ${leaving.ms} ms`
  }
}
