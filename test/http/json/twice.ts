import t from 'tap'
import { scanJson } from '../../../src/http/json/scan.ts'
import { refuseTwice } from '../../../src/http/json/twice.ts'

const judge = (text: string) => {
  const scan = scanJson(Buffer.from(`{"x":${text}}`), new Set())
  const member = scan.members.get('x')
  if (!member) throw new Error('no member')
  refuseTwice('x', scan.value('x'), member)
}

t.test('a key that comes twice in one object is refused, at any depth', async (t) => {
  for (const text of [
    '{"a":1,"a":1}',
    '[{"a":{"b":[{"c":1,"c":2}]}}]',
    '{"a":1,"\\u0061":2}',
    '{"__proto__":1,"__proto__":2}',
    '{"a":{"b":1},"a":{"b":1}}',
  ]) {
    t.throws(() => judge(text), { code: 'invalid_json', param: 'x' }, text)
  }
})

t.test('the same key in two objects is fine, and so is one inside a text', async (t) => {
  for (const text of [
    '[{"a":1},{"a":1}]',
    '{"a":{"a":{"a":1}}}',
    '{"a":"{\\"a\\":1,\\"a\\":2}"}',
    '"a:b"',
    '12',
    'null',
    '[[],{},":"]',
    '{"__proto__":{"a":1}}',
  ]) {
    t.doesNotThrow(() => judge(text), text)
  }
})
