// The object that has the messages of a sleeping session: its name, and its content: a line of JSON for each message,
// its id and its row as Redis had it, and at the end one with the object's name and their number. All of it as gzip, whose
// checksum tells a broken object; the last line tells one that is not whole, or not this one.

import { randomBytes } from 'node:crypto'
import { pipeline } from 'node:stream/promises'
import { createGunzip, createGzip } from 'node:zlib'

/**
 * How long an object stays after its session has woken or was deleted: a copy of Redis from before still names it. Also
 * how often the gateway looks whether a session names an object.
 */
export const objectKeptMs = 86_400_000

/** A message's id and its row. */
export type StoredRow = readonly [id: string, row: string]

/** A name that no other object has or had: what was removed is never meant by it. */
export function newObject(session: string): string {
  return `${session}.${randomBytes(8).toString('hex')}`
}

export function sessionIn(object: string): string {
  return object.slice(0, object.indexOf('.'))
}

/** Where an object is in the store. */
export function pathOf(ref: string, object: string): string {
  return `sessions/${ref}/${object}.ndjson.gz`
}

/** Takes the rows as they come, so that only what they were packed to is in memory as a whole. */
export async function pack(object: string, rows: AsyncIterable<StoredRow>): Promise<Buffer> {
  const packed: Buffer[] = []
  const lines = async function* () {
    let count = 0
    for await (const row of rows) {
      count++
      yield lineOf(row)
    }
    yield lineOf([object, `${count}`])
  }
  await pipeline(lines, createGzip(), async (pieces: AsyncIterable<Buffer>) => {
    for await (const piece of pieces) packed.push(piece)
  })
  return Buffer.concat(packed)
}

/** Throws where the object is broken, or is not this one as a whole: at its end at the latest. */
export async function* unpack(object: string, bytes: Buffer): AsyncGenerator<StoredRow> {
  let [count, last] = [0, '']
  for await (const row of rowsIn(bytes)) {
    const [id, text] = row
    last = id === object ? text : ''
    if (id === object) continue
    count++
    yield row
  }
  if (last !== `${count}`) throw new TypeError(`${object} has other messages, or not all`)
}

async function* rowsIn(bytes: Buffer): AsyncGenerator<StoredRow> {
  const unzipped = createGunzip()
  unzipped.end(bytes)
  let begun: Buffer[] = []
  for await (const piece of unzipped as AsyncIterable<Buffer>) {
    let from = 0
    for (let end = piece.indexOf('\n'); end >= 0; end = piece.indexOf('\n', from)) {
      yield rowIn(Buffer.concat([...begun, piece.subarray(from, end)]).toString())
      begun = []
      from = end + 1
    }
    if (from < piece.length) begun.push(piece.subarray(from))
  }
  if (begun.length > 0) throw new TypeError('The last line has no end')
}

const lineOf = (row: StoredRow): string => `${JSON.stringify(row)}\n`

function rowIn(line: string): StoredRow {
  const value: unknown = JSON.parse(line)
  const [id, row]: readonly unknown[] = Array.isArray(value) ? value : []
  if (typeof id !== 'string' || typeof row !== 'string')
    throw new TypeError('A line has no message')
  return [id, row]
}
