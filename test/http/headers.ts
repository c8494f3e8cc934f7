import t from 'tap'
import { headerList, headerOf } from '../../src/http/headers.ts'

t.test('no value can end its header, and no name can contain more than a name', async (t) => {
  const list = headerList(
    'req_1',
    { 'X-A': 'b\r\nSet-Cookie: c\0', 'X-Tab': 'a\tb' },
    { 'X B': 'c', 'X-C:': 'd', '': 'e', 'X-é': 'f', 'X-Latin': 'é', 'X-Wide': '报告' },
  )
  t.same(list, [
    'X-Request-Id',
    'req_1',
    'X-A',
    'b??Set-Cookie: c?',
    'X-Tab',
    'a\tb',
    'X-Latin',
    'é',
    'X-Wide',
    '??',
  ])
})

t.test('names are found in any case', async (t) => {
  t.equal(headerOf({ 'Content-TYPE': 'a' }, 'content-type'), 'a')
  t.equal(headerOf({ 'Content-Typ': 'a' }, 'content-type'), undefined)
})
