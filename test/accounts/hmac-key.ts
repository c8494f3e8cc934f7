import t from 'tap'
import { newKey, newRef } from '../../src/accounts/api-key.ts'
import { hmacKey } from '../../src/accounts/hmac-key.ts'
import { plain } from '../../src/plain.ts'
import { bothWays } from '../fixtures/both-ways.ts'

bothWays(t, 'key-hash')(
  'what is stored is HMAC-SHA-256, whatever the pepper and the text',
  async (t) => {
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
  },
)

t.test('a new key has one hash, by hand and by the library', async (t) => {
  for (let i = 0; i < 100; i++) {
    const [key, pepper] = [newKey(newRef()), newRef()]
    const own = hmacKey(key, pepper)
    plain.add('key-hash')
    t.equal(hmacKey(key, pepper), own)
    plain.delete('key-hash')
  }
})
