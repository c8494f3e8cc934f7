// Accounts in turn, and who gives way when there is no room.

import t from 'tap'
import { FairQueue } from '../../src/sharing/fair-queue.ts'

/** `a3` is the third of account `a`. */
function queueOf(items: string): FairQueue<string> {
  const queue = new FairQueue<string>()
  for (const item of items.split(' ')) queue.add(item.charAt(0), item)
  return queue
}

/** In the order in which they are served; `can` says who can be. */
function served(queue: FairQueue<string>, can: (item: string) => boolean = () => true): string {
  const order: string[] = []
  while (queue.serve((item) => can(item) && order.push(item) > 0));
  return order.join(' ')
}

t.test('accounts are served in turn, each in its own order', async (t) => {
  const queue = queueOf('a1 a2 a3 a4 b1 b2 c1')
  t.equal(queue.size, 7)
  t.equal(served(queue), 'a1 b1 c1 a2 b2 a3 a4')
  t.equal(queue.size, 0)
})

t.test('an account that was served waits for the others, also when it comes again', async (t) => {
  const queue = queueOf('a1 b1 b2')
  queue.serve(() => true)
  queue.add('a', 'a2')
  t.equal(served(queue), 'b1 a2 b2')
})

t.test("who was there before takes its place among its own, and nobody else's turn", async (t) => {
  const queue = queueOf('a2 a4 b1')
  const add = (item: string) => queue.add('a', item, (other) => item < other)
  for (const item of ['a3', 'a5', 'a1']) add(item)
  t.strictSame(queue.items(), ['a1', 'a2', 'a3', 'a4', 'a5', 'b1'])
  t.equal(queue.size, 6)
  t.equal(served(queue), 'a1 b1 a2 a3 a4 a5')
})

t.test('who cannot be served keeps its turn and holds nobody up', async (t) => {
  const queue = queueOf('a1 a2 b1')
  t.equal(
    served(queue, (item) => item !== 'a1'),
    'a2 b1',
  )
  t.strictSame([queue.size, queue.items()], [1, ['a1']])
  t.equal(served(queue), 'a1')
})

t.test('who has left is not served', async (t) => {
  const queue = queueOf('a1 a2 b1')
  t.equal(queue.delete('a', 'a1'), true)
  t.equal(queue.delete('a', 'a1'), false)
  t.equal(queue.delete('c', 'a2'), false)
  t.equal(queue.size, 2)
  t.equal(served(queue), 'a2 b1')
})

t.test(
  'the account with most gives up its newest to one with fewer, the new one included',
  async (t) => {
    t.equal(queueOf('a1 a2 a3 b1').displace('b'), 'a3')
    t.equal(queueOf('a1 a2').displace('b'), 'a2')
    t.equal(queueOf('a1 a2 b1').displace('b'), undefined, 'they would have as many')
    t.equal(queueOf('a1').displace('b'), undefined)
    t.equal(queueOf('a1 a2 a3').displace('a'), undefined)
    t.equal(new FairQueue<string>().displace('a'), undefined)
  },
)
