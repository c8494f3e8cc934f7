import t from 'tap'
import { directionOf, listOf, parseIdPage, parsePage } from '../../src/http/page.ts'
import { newId } from '../../src/ids.ts'

const parse = (text: string) => parsePage(new URLSearchParams(text))

t.test('a list has 20 rows, newest first, unless it is asked for otherwise', async (t) => {
  t.match(parse(''), { limit: 20, order: 'desc', after: undefined, before: undefined })
  t.match(parse('order=asc'), { order: 'asc' })
  t.match(parse('limit=1&after=a'), { limit: 1, after: 'a' })
  t.match(parse('limit=100&before=b&order=asc'), { limit: 100, before: 'b', order: 'asc' })
})

t.test('what cannot be meant is 400 invalid_parameter, naming the parameter', async (t) => {
  const wrong: [string, string][] = [
    ['limit=0', 'limit'],
    ['limit=101', 'limit'],
    ['limit=-1', 'limit'],
    ['limit=1e1', 'limit'],
    ['limit=', 'limit'],
    ['limit=1&limit=2', 'limit'],
    ['order=up', 'order'],
    ['after=', 'after'],
    ['after=a&before=b', 'before'],
  ]
  for (const [text, param] of wrong) {
    t.throws(() => parse(text), { code: 'invalid_parameter', param }, text)
  }
})

t.test('the envelope names its first and last row, null where there is none', async (t) => {
  t.same(listOf([{ id: 'a' }, { id: 'b' }], true), {
    object: 'list',
    data: [{ id: 'a' }, { id: 'b' }],
    first_id: 'a',
    last_id: 'b',
    has_more: true,
  })
  t.match(listOf([], false), { first_id: null, last_id: null, has_more: false })
})

t.test('a list may be oldest first unless it is asked for otherwise', async (t) => {
  t.equal(parsePage(new URLSearchParams(), 'asc').order, 'asc')
  t.equal(parsePage(new URLSearchParams('order=desc'), 'asc').order, 'desc')
})

t.test('rows before a cursor are read from it outwards, and turned', async (t) => {
  const direction = (text: string) => directionOf(parse(text))
  t.same(direction(''), { cursor: undefined, isUpwards: false, isTurned: false })
  t.same(direction('after=a'), { cursor: 'a', isUpwards: false, isTurned: false })
  t.same(direction('before=a'), { cursor: 'a', isUpwards: true, isTurned: true })
  t.same(direction('after=a&order=asc'), { cursor: 'a', isUpwards: true, isTurned: false })
  t.same(direction('before=a&order=asc'), { cursor: 'a', isUpwards: false, isTurned: true })
})

t.test('a cursor is an id of what is listed, whether it is there or not', async (t) => {
  const parseIds = (text: string) => parseIdPage(new URLSearchParams(text), 'msg', 'asc')
  const id = newId('msg')
  t.match(parseIds(`after=${id}`), { after: id, order: 'asc', limit: 20 })
  t.match(parseIds(`before=${id}&order=desc`), { before: id, order: 'desc' })
  for (const wrong of ['x', newId('sess'), `${id}0`, '%ff', '%00', '[', '-', '+']) {
    for (const param of ['after', 'before']) {
      const faulty = { code: 'invalid_parameter', param }
      t.throws(() => parseIds(`${param}=${wrong}`), faulty, wrong)
    }
  }
})

t.test("a transaction's cursor is a place in the journal", async (t) => {
  const parse = (after: string) => parseIdPage(new URLSearchParams({ after }), 'txn')
  const id = `txn_${'0'.repeat(32)}`
  t.match(parse(id), { after: id })
  for (const wrong of ['nonsense', newId('msg'), `${id}0`, '1-1']) {
    t.throws(() => parse(wrong), { code: 'invalid_parameter', param: 'after' }, wrong)
  }
})
