import t from 'tap'
import { crc32 } from 'node:zlib'
import { keyHint, keyReader, newKey, newRef, parseKey } from '../../src/accounts/api-key.ts'
import { hmacKey } from '../../src/accounts/hmac-key.ts'

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
