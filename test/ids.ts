import t from 'tap'
import { idAfter, isId, newId, secondsOf } from '../src/ids.ts'

t.test('an id is its prefix and 32 hex digits, greater than every id before it', async (t) => {
  let last = ''
  for (let i = 0; i < 10_000; i++) {
    const id = newId('key')
    if (!/^key_[0-9a-f]{12}7[0-9a-f]{19}$/.test(id) || id <= last) t.fail(`${id} after ${last}`)
    last = id
  }
  t.match(last, /^key_/)
})

t.test('the id after another one is the next greater, whatever bits are set', async (t) => {
  const cases = [
    ['0192f0a1b2c3700080000000000000ff', '0192f0a1b2c370008000000000000100'],
    ['0192f0a1b2c37000bfffffffffffffff', '0192f0a1b2c370018000000000000000'],
    ['0192f0a1b2c37fffbfffffffffffffff', '0192f0a1b2c470008000000000000000'],
  ] as const
  for (const [id, next] of cases) t.equal(idAfter(`sess_${id}`), `sess_${next}`)
  let last = newId('sess')
  for (let i = 0; i < 1000; i++) {
    const next = idAfter(last)
    if (next <= last || !isId('sess', next)) t.fail(`${next} after ${last}`)
    last = next
  }
  t.pass(last)
})

t.test('an id of another kind is recognised without a look-up', async (t) => {
  const id = newId('msg')
  t.equal(isId('msg', id), true)
  const wrong = ['', 'msg', 'msg_', 'msg_0', `${id}0`, id.slice(0, -1), id.toUpperCase(), `${id}\n`]
  for (const text of [...wrong, id.replace('msg', 'sess'), id.replace(/_.{13}/, '_0123456789ab4')])
    t.equal(isId('msg', text), false, text)
  t.equal(isId('sess', id), false)
})

t.test('an id tells the second of its making', async (t) => {
  t.ok(Math.abs(secondsOf(newId('sess')) - Date.now() / 1000) < 60)
})
