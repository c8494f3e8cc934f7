// Clients that want no more than they pay for, and that sometimes leave. They must not pay much more than was used.

import type { Random } from '../../../test/fixtures/random.ts'
import type { Leaving } from '../client.ts'
import { images, plain, prose, tools } from '../loads.ts'
import type { ModelName } from '../models.ts'
import { afterEvents, finish, last, made, stays } from '../strategy.ts'
import type { Mount, Strategy } from '../strategy.ts'

const body = (random: Random) => ({ ...plain(random, 1000), stream: true, max_tokens: 800 })

const client = (model: ModelName, leaving: Leaving, mount: Mount = 'v1'): Strategy => {
  return { name: 'honest', item: 0, model, mount, leaving, isHonest: true, body }
}

const whole = (model: ModelName, leaving: Leaving): Strategy => ({
  ...client(model, leaving),
  name: 'honest, unstreamed',
  body: (random) => ({ ...plain(random, 1000), max_tokens: 400 }),
})

const photo = (random: Random) => {
  const [message] = images(1, 1400).messages as [{ readonly content: readonly unknown[] }]
  const content = [{ type: 'text', text: prose(random, 100) }, ...message.content]
  return { messages: [{ role: 'user', content }], stream: true, max_tokens: 400 }
}

const agent = (random: Random) => ({ ...tools(random, 12), stream: true, max_tokens: 400 })

const robbed = 'honest, robbed by its backend'

export const honest: readonly Strategy[] = [
  client('end', stays),
  client('each', stays),
  client('never', stays),
  client('end', afterEvents(20)),
  client('each', afterEvents(20)),
  client('never', afterEvents(20)),
  client('tools', afterEvents(20)),
  client('end', last),
  client('never', last),
  client('end', finish),
  client('end', afterEvents(20), 'cancel'),
  { ...client('end', afterEvents(20)), name: 'honest, with a photo', body: photo },
  { ...client('end', afterEvents(20)), name: 'honest, with tools', body: agent },
  { ...client('never', stays), name: 'honest, with tools', body: agent },
  whole('end', stays),
  whole('never', stays),
  whole('end', made),
  // The body has 6 kB, and a byte is one token at most; templates may add some tokens.
  { ...client('liar', stays), name: robbed, isHonest: false, mostTokens: 20_000 },
]
