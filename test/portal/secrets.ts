import t from 'tap'
import { entryOf, newSecret } from '../../src/portal/secrets.ts'

t.test('a secret has 256 random bits, names its account, and is never stored', async (t) => {
  const [one, two] = [newSecret('AbCdEfGh0123'), newSecret('AbCdEfGh0123')]
  t.match(one, /^AbCdEfGh0123\.[\w-]{43}$/)
  t.not(one, two)
  const { ref, hash } = entryOf(one)
  t.equal(ref, 'AbCdEfGh0123')
  t.match(hash, /^[\w-]{43}$/)
  t.notOk(one.includes(hash))
  t.not(hash, entryOf(two).hash)
})

t.test('a text that cannot be one is looked up as one of nobody', async (t) => {
  const good = newSecret('AbCdEfGh0123')
  for (const bad of ['', 'x', `${good}x`, good.slice(1), good.replace('.', ':'), `${good}\n`]) {
    const { ref, hash } = entryOf(bad)
    t.equal(ref, '000000000000', JSON.stringify(bad))
    t.equal(hash.length, 43)
  }
})
