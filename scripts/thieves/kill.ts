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
import type { World } from './world.ts'

/** With this gap between chunks an answer takes 5 s. */
const gapMs = 25
const path = '/v1/chat/completions'

const kinds: readonly (readonly [string, ModelName, (random: Random) => object])[] = [
  ['words', 'end', (random) => plain(random, 2000)],
  ['words', 'never', (random) => plain(random, 2000)],
  ['document', 'end', (random) => documents['tools[].function.description'](random, 8000)],
  ['images', 'end', () => images(2, 3000)],
  ['hidden reasoning', 'hidden', (random) => plain(random, 20)],
  ["custom tools' input", 'custom', (random) => plain(random, 20)],
]

interface Running {
  readonly model: ModelName
  readonly account: Account
}

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
  const before = running.map(({ truth: { cost, completion } }) => ({ cost, completion }))
  // Waits until a checkpoint has noted all of that. On a busy machine a stream may even have ended, and has no hold.
  const isNoted = async ({ model, account }: Running, i: number) => {
    const { id, charged, used } = await openHold(world.link, account)
    const { cost = 0, completion = 0 } = before[i] ?? {}
    // The prompt may still be estimated, so its cost alone does not tell that words were counted.
    return id === '' || isHidden(model) || (charged >= cost && used.completion >= completion)
  }
  await until(async () => (await Promise.all(running.map(isNoted))).every(Boolean), 30_000)
  await victim.kill()
  return Promise.all(
    running.map(async ({ name, model, account, truth, answered }, i) => {
      await answered
      await truth.idle()
      const { spent, owed, balance } = await settledBalance(world.gateways[0], account)
      const { cost = 0 } = before[i] ?? {}
      const isStolen = !isHidden(model) && spent + owed < cost
      const said = `${cost} before its last checkpoint`
      const line = { name, item: 1, backend: model, ending: 'gateway killed', requests: 1 }
      const fault = balance < 0 ? 'a negative balance' : isStolen ? 'stolen' : ''
      return { ...line, truth: truth.cost, paid: spent, owed, fault, said }
    }),
  )
}
