import t from 'tap'
import { crc32 } from 'node:zlib'
import {
  hmacKey,
  keyHint,
  keyReader,
  newKey,
  newRef,
  parseKey,
} from '../../src/accounts/api-key.ts'
import { plain } from '../../src/plain.ts'
import { bothWays } from '../fixtures/both-ways.ts'

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'

t.test('a new key has the shape of a key and names its account', async (t) => {
  const ref = newRef()
  t.match(ref, /^[0-9A-Za-z]{12}$/)
  const key = newKey(ref)
  t.match(key, new RegExp(`^tg_live_${ref}_[0-9A-Za-z]{36}$`))
  t.strictSame(parseKey(key), { ref })
  t.equal(keyHint(key), `tg_live_…${key.slice(-4)}`)
})

t.test('the checksum is CRC-32 of what stands before it, base62, padded with 0', async (t) => {
  for (let i = 0; i < 200; i++) {
    const text = key()
    const sum = Array.from(text.slice(-6)).reduce((n, char) => n * 62 + alphabet.indexOf(char), 0)
    t.equal(sum, crc32(text.slice(0, -6)))
  }
  // Computed by other code than ours (Python's binascii.crc32).
  const known = `tg_live_000000000000_${'0'.repeat(30)}2nmgHK`
  t.strictSame(parseKey(known), { ref: '000000000000' })
})

t.test('one changed character makes it no key', async (t) => {
  const text = key()
  for (let i = 0; i < text.length; i++) {
    const other = text[i] === 'x' ? 'y' : 'x'
    t.equal(parseKey(text.slice(0, i) + other + text.slice(i + 1)), undefined, `position ${i}`)
  }
})

t.test('a text that only looks like a key is refused', async (t) => {
  const text = key()
  for (const wrong of [
    '',
    'sk-123',
    text.slice(1),
    `${text} `,
    ` ${text}`,
    text + text,
    text.replace('tg_live_', 'tg_test_'),
    text.slice(0, -1) + 'é',
    'x'.repeat(1_000_000),
  ]) {
    t.equal(parseKey(wrong), undefined)
  }
})

t.test('refs and secrets use all 62 characters equally often', async (t) => {
  const counts = new Map<string, number>()
  const samples = 62 * 1000
  for (let i = 0; i < samples / 12; i++) {
    for (const char of newRef()) counts.set(char, (counts.get(char) ?? 0) + 1)
  }
  t.equal(counts.size, 62)
  // 1000 ± 8 σ; `byte % 62` alone gives the first 8 characters 1211.
  for (const [char, count] of counts) t.ok(Math.abs(count - 1000) < 8 * 32, `${char}: ${count}`)
})

t.test('keys do not repeat', async (t) => {
  const ref = newRef()
  t.equal(new Set(Array.from({ length: 1000 }, () => newKey(ref))).size, 1000)
})

function key(): string {
  return newKey(newRef())
}

t.test('a key that a client sends is its account and its hash under the pepper', async (t) => {
  const read = keyReader({ plugins: new Map([['auth', { pepper: 'pepper' }]]) })
  const [ref, plainly] = [newRef(), keyReader({ plugins: new Map() })]
  const key = newKey(ref)
  t.strictSame(read(key), { ref, hmac: hmacKey(key, 'pepper') })
  t.strictSame(plainly(key), { ref, hmac: hmacKey(key, '') })
  t.equal(read(`${key}x`), undefined)
})

bothWays(t, 'key-hash')('HMAC-SHA-256 is stored, whatever pepper and text', async (t) => {
  const long = `tg_live_000000000000_${'0'.repeat(30)}2nmgHK`
  // Computed apart from our code (Python's hmac): what Redis has of keys must be found again.
  const known = [
    ['', '', 'thNnmggU2ex3L5XXeMNfxf8Wl8STcVZTxscSFEKSxa0'],
    ['p', 'short', 'Q1XW8a9mcNqvpcBWliB9LZ_8Jao3UFMZjEdopzy5oD0'],
    ['p'.repeat(65), 'x'.repeat(300), 'NU-Icq9m0wAQ-8qZum0l4IzODUCuhHd63bBSKK0wZWk'],
    ['pépper', 'ключ', 'q7i9PDMfwmOul4WxYK_aGO5Lk04Kbr4PBjXlknIyJ9U'],
    ['pepper', long, 'mtJDzj3P6evw7nkVilIl89xXLQq15bl7A8JYCFMOKLw'],
    ['p'.repeat(63), long, 'n2H-HPNyMFJjf0xBp1BZ-c5mmfGpQmRHim-9FPlXyDM'],
    ['p'.repeat(64), long, 'VQ6t5oPiAX9Lx-jUNCnoY_KvsnPDx2wqP-CIDDid3RQ'],
    ['p'.repeat(65), long, 'bbNrCMOc0FV2Srdmf_Cv1wUf9V5gnPr5WUrJboSrrcU'],
    ['pépper', long, 'npAN6uukzWT_uPtVb_lM-VNNWpSHe2J2ps6_ntjGlG8'],
    ['', long, '0i1qqZd4LmP80uiCj7hPKA2sA21WckIpg9uHsjDi-lg'],
  ] as const
  for (const [pepper, text, expected] of known) t.equal(hmacKey(text, pepper), expected)
})

t.test('a new key has one hash, by hand and by the library', async (t) => {
  for (let i = 0; i < 100; i++) {
    const [key, pepper] = [newKey(newRef()), newRef()]
    const own = hmacKey(key, pepper)
    plain.add('key-hash')
    t.equal(hmacKey(key, pepper), own)
    plain.delete('key-hash')
  }
})
