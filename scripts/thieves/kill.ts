// Kills a gateway while it has streams of all kinds. Its holds come back within a lease, and what was used up to a
// checkpoint before the kill is paid or owed.

import { randomBytes } from 'node:crypto'
import type { Account } from '../../test/fixtures/gateway.ts'
import { openHold } from '../../test/fixtures/money.ts'
import type { Random } from '../../test/fixtures/random.ts'
import { until } from '../../test/fixtures/until.ts'
import { ask } from './client.ts'
import { documents, images, plain } from './loads.ts'
import type { ModelName } from './models.ts'
import { maxOutputTokens } from './models.ts'
import { settledBalance } from './play.ts'
import type { Result } from './play.ts'
import { stays } from './strategy.ts'
import type { Truth } from './truth.ts'
import type { World } from './world.ts'

/** With this gap between chunks an answer takes 50 s, so each stream still runs when the gateway is killed. */
const gapMs = 250
const path = '/v1/chat/completions'

const kinds: readonly (readonly [string, ModelName, (random: Random) => object])[] = [
  ['words', 'end', (random) => plain(random, 2000)],
  ['words', 'never', (random) => plain(random, 2000)],
  ['document', 'end', (random) => documents['tools[].function.description'](random, 8000)],
  ['images', 'end', () => images(2, 3000)],
  ['hidden reasoning', 'hidden', (random) => plain(random, 20)],
  ["custom tools' input", 'custom', (random) => plain(random, 20)],
]

/** Hidden tokens are known only from the backend's last report, and a killed gateway does not live to read it. */
const isHidden = (model: ModelName) => model === 'hidden'

export async function playKill(world: World, random: Random): Promise<readonly Result[]> {
  const victim = await world.spawn()
  const running = await Promise.all(
    kinds.map(async ([name, model, load]) => {
      const account = await victim.account(10_000_000)
      const trace = randomBytes(16).toString('hex')
      const truth = world.truths.of(trace)
      const body = JSON.stringify({
        model,
        ...load(random),
        stream: true,
        user: `gap:${gapMs}`,
        max_tokens: isHidden(model) ? 14_000 : maxOutputTokens,
      })
      const url = victim.url
      const asking = { url, path, key: account.key, body, trace, leaving: stays, truth }
      return { name, model, account, truth, answered: ask(asking).catch(() => undefined) }
    }),
  )
  await until(() => running.every(({ truth }) => truth.cost > truth.prompt), 30_000)
  const seen = running.map((one) => {
    const { cost, completion } = one.truth
    return { ...one, before: { cost, completion } }
  })
  const areNoted = () => Promise.all(seen.map((one) => isNoted(world, one)))
  await until(async () => (await areNoted()).every(Boolean))
  await victim.kill()
  return Promise.all(
    seen.map(async ({ name, model, account, truth, before, answered }) => {
      await answered
      await truth.idle()
      const { spent, owed, balance } = await settledBalance(world.gateways[0], account)
      const isStolen = !isHidden(model) && spent + owed < before.cost
      const said = `${before.cost} before its last checkpoint`
      const line = { name, item: 1, backend: model, ending: 'gateway killed', requests: 1 }
      const fault = balance < 0 ? 'a negative balance' : isStolen ? 'stolen' : ''
      return { ...line, truth: truth.cost, paid: spent, owed, fault, said }
    }),
  )
}

interface Seen {
  readonly model: ModelName
  readonly account: Account
  /** What the backend had counted for it, some time ago. */
  readonly before: Pick<Truth, 'cost' | 'completion'>
}

/** Whether a checkpoint has noted what was seen before. */
async function isNoted({ link }: World, { model, account, before }: Seen): Promise<boolean> {
  if (isHidden(model)) return true
  const { charged, used } = await openHold(link, account)
  // The prompt may still be estimated, so its cost alone does not tell that words were counted.
  return charged >= before.cost && used.completion >= before.completion
}
