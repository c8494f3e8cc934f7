// One run of chaos, from the first customer to the last check.

import { refOf } from '../../test/fixtures/money.ts'
import { seeded } from '../../test/fixtures/random.ts'
import type { Teardown } from '../../test/fixtures/teardown.ts'
import { Bounds } from './bounds.ts'
import { Chatter } from './chats.ts'
import type { Customer, Surroundings } from './customer.ts'
import { Outcomes } from './outcomes.ts'
import { Payer } from './payments.ts'
import { play } from './play.ts'
import type { FailOver } from './risks.ts'
import { Keeper } from './shelves.ts'
import type { StateKind } from './state.ts'
import { Talker } from './talks.ts'
import { booksAreEven, comeToRest, entriesOf, filesInOrder, leaveNothing } from './verify.ts'
import { startWorld } from './world.ts'
import type { World } from './world.ts'

export interface ChaosOptions {
  readonly seed: number
  readonly seconds: number
  /** Faults whose name has this text. */
  readonly only: string
  readonly redis: StateKind
  /** Told what comes next. */
  readonly say?: (text: string) => void
}

export interface ChaosReport {
  readonly outcomes: Outcomes
  /** All, whoever has caused them. */
  readonly failOvers: readonly FailOver[]
  /** What was checked, and how often. */
  readonly checked: Readonly<Record<string, number>>
  /** What these have lost, as they may, and how much. */
  readonly lost: ReadonlyMap<string, number>
  /** Promises that were broken. */
  readonly broken: readonly string[]
}

const crowd = { chatters: 8, talkers: 6, keepers: 3, payers: 2 }
const funds = 1_000_000_000

/** How long the last faults may take, and Redis until it is healthy. */
const healingMs = 180_000
/** Longer than a message takes, and a call that nobody answers. */
const customersMs = 180_000
/** Each part of the checks, of which there are thousands. */
const checkingMs = 600_000

export async function chaos(
  t: Teardown,
  { seed, redis, say = () => undefined, ...options }: ChaosOptions,
): Promise<ChaosReport> {
  const random = seeded(seed)
  const world = await startWorld(t, redis)
  const outcomes = new Outcomes()
  const surroundings = () => ({ random: seeded(random(2 ** 31)), outcomes })
  const customers = await gather(world, surroundings)
  const { everybody, keepers } = customers
  const stopping = new AbortController()
  t.teardown(() => stopping.abort())
  const bounds = new Bounds()
  const living = Promise.all(everybody.map((one) => one.live(stopping.signal)))
  const playing = play(world, { ...options, random, outcomes })
  // A customer who gives up ends the run.
  const nightMs = 1000 * options.seconds + healingMs
  await bounds.wait('faults', nightMs, Promise.race([playing, living.then(() => playing)]))
  stopping.abort()
  say('All is healed: the customers end what they have begun.')
  await bounds.wait('customers', customersMs, living)
  say('They have: holds and settlements come to rest.')
  const broken = await bounds.wait('the books', checkingMs, checkBooks(world, everybody))
  say('Every promise is checked.')
  await bounds.wait('checks of customers', checkingMs, verifyAll(world, customers))
  await bounds.wait('checks of files', checkingMs, verifyFiles(t, world, keepers))
  const left = [...(await leaveNothing(world)), ...bounds.left]
  const { failOvers } = world.risks
  return {
    outcomes,
    failOvers,
    checked: sumsOf(customers),
    lost: lossesOf(customers),
    broken: [...(broken ?? []), ...everybody.flatMap((one) => one.broken), ...left],
  }
}

async function checkBooks(
  world: World,
  everybody: readonly Customer[],
): Promise<readonly string[]> {
  const accounts = everybody.map(({ account }) => account)
  return [...(await comeToRest(world, accounts)), ...(await booksAreEven(world, accounts))]
}

/** The one whom the line is about. */
function keeperOf(keepers: readonly Keeper[], line: string): Keeper {
  const [first] = keepers
  const owner = keepers.find(({ account }) => line.includes(refOf(account))) ?? first
  if (!owner) throw new Error(line)
  return owner
}

type Living = Customer & { live(signal: AbortSignal): Promise<void> }

interface Customers {
  readonly chatters: readonly Chatter[]
  readonly talkers: readonly Talker[]
  readonly keepers: readonly Keeper[]
  readonly payers: readonly Payer[]
  readonly everybody: readonly Living[]
}

async function gather(world: World, surroundings: () => Surroundings): Promise<Customers> {
  const some = async <T>(count: number, make: new (...args: MakeArgs) => T): Promise<T[]> => {
    const made = Array.from({ length: count }, async () => {
      return new make(world, await world.witness.gateway.account(funds), surroundings())
    })
    return Promise.all(made)
  }
  const chatters = await some(crowd.chatters, Chatter)
  const talkers = await some(crowd.talkers, Talker)
  const keepers = await some(crowd.keepers, Keeper)
  const payers = await some(crowd.payers, Payer)
  const everybody = [...chatters, ...talkers, ...keepers, ...payers]
  return { chatters, talkers, keepers, payers, everybody }
}

type MakeArgs = ConstructorParameters<typeof Customer>

async function verifyAll(world: World, customers: Customers): Promise<void> {
  const { chatters, talkers, keepers, payers } = customers
  await world.state.settled()
  const entries = ({ account }: Customer) => entriesOf(world.witness.gateway, account)
  for (const one of chatters) one.verify(await entries(one))
  for (const one of payers) one.verify(await entries(one))
  for (const one of talkers) await one.verify(await entries(one))
  for (const one of keepers) await one.verify()
  // There may have been another fail-over meanwhile.
  await world.state.settled()
  for (const one of customers.everybody) one.judgeMissing()
}

async function verifyFiles(t: Teardown, world: World, keepers: readonly Keeper[]): Promise<void> {
  const lines = await filesInOrder(t, world)
  await world.state.settled()
  for (const line of lines) keeperOf(keepers, line).judgeLeft(line)
}

function lossesOf({ chatters, everybody }: Customers): ReadonlyMap<string, number> {
  const lost = new Map<string, number>()
  for (const what of everybody.flatMap((one) => one.lost)) {
    lost.set(what, (lost.get(what) ?? 0) + 1)
  }
  const tokens = chatters.reduce((sum, { sums }) => sum + sums.lost, 0)
  if (tokens > 0) lost.set('tokens of which a killed gateway had the charge', tokens)
  return lost
}

function sumsOf({ chatters, talkers, keepers, payers }: Customers): Record<string, number> {
  const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0)
  return {
    'tokens charged': sum(chatters.map(({ sums }) => sums.charged)),
    'tokens served': sum(chatters.map(({ sums }) => sums.served)),
    messages: sum(talkers.map((one) => one.messages)),
    'of them incomplete': sum(talkers.map((one) => one.incomplete)),
    files: sum(keepers.map((one) => one.files)),
    payments: sum(payers.map((one) => one.payments)),
  }
}
