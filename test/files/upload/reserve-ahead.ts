// How many bytes are reserved, and when.

import t from 'tap'
import { GatewayError } from '../../../src/errors.ts'
import { reserveAhead } from '../../../src/files/upload/reserve-ahead.ts'

const mib = 1024 * 1024

/** A quota with this many bytes left. */
function quota(leftBytes: number, maxBytes = 1024 * mib) {
  const asked: number[] = []
  const reserve = async (bytes: number) => {
    asked.push(bytes)
    if (bytes > leftBytes) throw new GatewayError('storage_quota_exceeded')
  }
  return { asked, source: { maxBytes, reserve } }
}

/** Passes a file in pieces; resolves with how far it came. */
async function pass(reservation: ReturnType<typeof reserveAhead>, fileBytes: number) {
  const pieceBytes = 64 * 1024
  for (let bytes = 0; bytes < fileBytes;) {
    bytes = Math.min(fileBytes, bytes + pieceBytes)
    if (bytes > reservation.bytes) await reservation.extend(bytes)
  }
  return reservation.bytes
}

const exceeded = { code: 'storage_quota_exceeded' }

t.test('a request of known length reserves once', async (t) => {
  const { asked, source } = quota(100 * mib)
  await pass(reserveAhead(source, 50 * mib + 300), 50 * mib)
  t.strictSame(asked, [50 * mib + 300])
})

t.test('at most the limit of a file is reserved', async (t) => {
  const { asked, source } = quota(100 * mib, 1000)
  t.equal(await pass(reserveAhead(source, 1300), 1000), 1000)
  t.strictSame(asked, [1000])
})

t.test('a file that cannot fit is refused at its first byte', async (t) => {
  const { asked, source } = quota(10 * mib)
  const reservation = reserveAhead(source, 50 * mib)
  await t.rejects(reservation.extend(1), exceeded)
  t.strictSame(asked, [50 * mib, 50 * mib - 64 * 1024])
  t.equal(reservation.bytes, 0)
})

t.test('a file that fills the quota to the byte is taken', async (t) => {
  for (const bodyBytes of [3 * mib + 300, Number.NaN]) {
    const { asked, source } = quota(3 * mib)
    t.equal(await pass(reserveAhead(source, bodyBytes), 3 * mib), 3 * mib)
    t.ok(asked.length < 40, `asked ${asked.length} times`)
  }
  for (const bodyBytes of [3 * mib + 300, Number.NaN]) {
    const { source } = quota(3 * mib - 1)
    await t.rejects(pass(reserveAhead(source, bodyBytes), 3 * mib), exceeded, 'and none larger')
  }
})

t.test('for an unknown length, each slice is reserved', async (t) => {
  const { asked, source } = quota(1000 * mib)
  await pass(reserveAhead(source, Number.NaN), 64 * mib)
  t.equal(asked.length, 8)
})

t.test('other failures are not repeated', async (t) => {
  let calls = 0
  const reserve = async () => {
    calls++
    throw new GatewayError('ledger_unavailable')
  }
  const reservation = reserveAhead({ maxBytes: mib, reserve }, Number.NaN)
  await t.rejects(reservation.extend(1), { code: 'ledger_unavailable' })
  t.equal(calls, 1)
})
