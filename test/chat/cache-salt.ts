import t from 'tap'
import { cacheSaltOf } from '../../src/chat/cache-salt.ts'

t.test('a salt belongs to one account at one target, and reveals neither', async (t) => {
  const salt = cacheSaltOf({ key: 'secret' }, 'AAAAAAAAAAAA')
  t.match(salt, /^[\w-]{43}$/)
  t.equal(cacheSaltOf({ key: 'secret' }, 'AAAAAAAAAAAA'), salt)
  t.not(cacheSaltOf({ key: 'secret' }, 'AAAAAAAAAAAB'), salt)
  t.not(cacheSaltOf({ key: 'other' }, 'AAAAAAAAAAAA'), salt)
  t.not(cacheSaltOf({}, 'AAAAAAAAAAAA'), salt)
})
