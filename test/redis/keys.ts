import t from 'tap'
import { accountKeys, keys } from '../../src/redis/keys.ts'

const ofNoAccount: readonly string[] = ['answeredState', 'deletedLogin', 'adminClaim']

t.test('the keys of an account share its slot of a Cluster, and no two are the same', async (t) => {
  const entries = Object.entries(keys).flatMap(([name, key]) => {
    const make = key as string | ((...args: readonly unknown[]) => string)
    return typeof make === 'string' ? [] : [[name, make('ref', 'id', 'more')] as const]
  })
  for (const [name, key] of entries)
    t.equal(key.startsWith('{ref}:'), !ofNoAccount.includes(name), key)
  t.equal(new Set(entries.map(([, key]) => key)).size, entries.length)
  for (const key of accountKeys('ref')) t.match(key, /^\{ref\}:/)
})
