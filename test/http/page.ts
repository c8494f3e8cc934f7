import t from 'tap'
import { directionOf, listOf, parseIdPage, parsePage, single } from '../../src/http/page.ts'
import { newId } from '../../src/ids.ts'

const parse = (text: string) => parsePage(new URLSearchParams(text), (id) => /^[ab]$/.test(id))

t.test('a list has 20 rows, newest first, unless the query says otherwise', async (t) => {
  t.match(parse(''), { limit: 20, order: 'desc', after: undefined, before: undefined })
  t.match(parse('order=asc'), { order: 'asc' })
  t.match(parse('limit=1&after=a'), { limit: 1, after: 'a' })
  t.match(parse('limit=100&before=b&order=asc'), { limit: 100, before: 'b', order: 'asc' })
})

t.test('an invalid query is 400 invalid_parameter with the name of the parameter', async (t) => {
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
    ['after=c', 'after'],
    ['before=c', 'before'],
  ]
  for (const [text, param] of wrong) {
    t.throws(() => parse(text), { code: 'invalid_parameter', param }, text)
  }
})

t.test('a filter without a value is refused: it would filter nothing', async (t) => {
  const read = (text: string) => () => single(new URLSearchParams(text), 'external_id')
  t.equal(read('external_id=cus_1')(), 'cus_1')
  t.equal(read('')(), undefined)
  for (const text of ['external_id=', 'external_id', 'external_id=a&external_id=a']) {
    t.throws(read(text), { code: 'invalid_parameter', param: 'external_id' }, text)
  }
})

t.test('the envelope has the ids of its first and last row, null without rows', async (t) => {
  t.same(listOf([{ id: 'a' }, { id: 'b' }], true), {
    object: 'list',
    data: [{ id: 'a' }, { id: 'b' }],
    first_id: 'a',
    last_id: 'b',
    has_more: true,
  })
  t.match(listOf([], false), { first_id: null, last_id: null, has_more: false })
})

t.test('a list may be oldest first unless the query says otherwise', async (t) => {
  t.equal(parsePage(new URLSearchParams(), () => true, 'asc').order, 'asc')
  t.equal(parsePage(new URLSearchParams('order=desc'), () => true, 'asc').order, 'desc')
})

t.test('rows before a cursor are read backwards from it, and reversed', async (t) => {
  const direction = (text: string) => directionOf(parse(text))
  t.same(direction(''), { cursor: undefined, isUpwards: false, isTurned: false })
  t.same(direction('after=a'), { cursor: 'a', isUpwards: false, isTurned: false })
  t.same(direction('before=a'), { cursor: 'a', isUpwards: true, isTurned: true })
  t.same(direction('after=a&order=asc'), { cursor: 'a', isUpwards: true, isTurned: false })
  t.same(direction('before=a&order=asc'), { cursor: 'a', isUpwards: false, isTurned: true })
})

t.test('a cursor is an id of the kind that is listed, whether the row exists or not', async (t) => {
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
