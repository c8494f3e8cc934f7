// src/sharing/linked-list.ts: a list whose members know their neighbours.

import t from 'tap'
import { LinkedList } from '../../src/sharing/linked-list.ts'
import type { Linked } from '../../src/sharing/linked-list.ts'
import { seeded } from '../fixtures/random.ts'

class Member implements Linked<Member> {
  isListed = false
  previous: Member | undefined
  next: Member | undefined
}

t.test('the list has what was added and not deleted, in the order of insertion', (t) => {
  const random = seeded(1)
  const all = Array.from({ length: 9 }, () => new Member())
  const list = new LinkedList<Member>()
  const model = new Set<Member>()
  const [found, expected]: [unknown[], unknown[]] = [[], []]
  const indexOf = (member: Member) => all.indexOf(member)
  for (let step = 0; step < 1000; step++) {
    const one = all[random(all.length)] ?? new Member()
    if (random(2) === 0) {
      list.add(one)
      model.add(one)
    } else {
      found.push(list.delete(one))
      expected.push(model.delete(one))
    }
    found.push([list.size, list.members().map(indexOf)])
    expected.push([model.size, [...model].map(indexOf)])
  }
  t.strictSame(found, expected)
  t.end()
})

t.test('a member that has left points to nobody', (t) => {
  const list = new LinkedList<Member>()
  const [one, two, three] = [new Member(), new Member(), new Member()]
  for (const member of [one, two, three]) list.add(member)
  list.delete(two)
  t.same([two.previous, two.next, two.isListed], [undefined, undefined, false])
  t.equal(one.next, three)
  t.equal(three.previous, one)
  t.end()
})
