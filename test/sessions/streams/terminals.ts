// A reader of a lost message gets one terminal, also if it asks again.

import t from 'tap'
import { newId } from '../../../src/ids.ts'
import { keys } from '../../../src/redis/keys.ts'
import { openStreams } from '../../fixtures/stream.ts'

t.test('a terminal is given once a number to those who were ahead', async (t) => {
  const { rows, start, redis, ref } = await openStreams(t)
  const { terminals } = rows
  const owned = await start()
  t.equal(await terminals.wasGiven(owned, 7), false)
  t.equal(await terminals.wasGiven(owned, 7), false, 'asking gives none')
  await terminals.note(owned, 7)
  t.equal(await terminals.wasGiven(owned, 7), true)
  t.equal(await terminals.wasGiven(owned, 8), false)
  for (let seq = 100; seq < 200; seq++) await terminals.note(owned, seq)
  t.equal(await terminals.wasGiven(owned, 8), true, 'no more than a few')
  const deleted = newId('msg')
  await terminals.note({ ...owned, message: deleted }, 7)
  t.ok((await redis.pttl(keys.stream(ref, deleted))) > 0, 'nothing stays for ever')
})
