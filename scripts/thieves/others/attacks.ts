// Attacks on other customers (findings 9 to 14), run in the attacker's process. The rates are what one cheap machine
// can send; most attacks use accounts without money.

import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { newKey, newRef } from '../../../src/accounts/api-key.ts'
import { call, headOf, hold, smallValues, steadily, tell } from './means.ts'
import type { Held } from './means.ts'
import type { Answers, Assault } from './orders.ts'

export interface Attack {
  /** The number of the finding. */
  readonly item: number
  /** Makes what the attack needs beforehand. */
  prepare?(assault: Assault, answers: Record<string, number>): Promise<void>
  run(assault: Assault, answers: Record<string, number>): Promise<void>
}

const MiB = 2 ** 20
const sessions = '/api/chat/sessions'
/** A little less than the limit of the instructions. */
const instructionBytes = 32 * 1024 - 10

export const attacks: Readonly<Record<string, Attack>> = {
  'sessions with long instructions': { item: 9, run: (one, answers) => fill(one, answers, false) },
  'sessions made and deleted': { item: 9, run: (one, answers) => fill(one, answers, true) },
  '8 heads that announce 32 MiB': { item: 10, run: announce },
  '9 streams with data URLs': { item: 10, run: dataUrls },
  '1 MiB of small values': {
    item: 11,
    prepare: async () => makeBodies(MiB),
    run: (one, answers) => values(one, answers, 6),
  },
  '31 MiB of small values': {
    item: 11,
    prepare: async () => makeBodies(31 * MiB),
    run: (one, answers) => values(one, answers, 0.5),
  },
  'strangers with 64 KiB': {
    item: 11,
    prepare: async () => makeBodies(64 * 1024 - 200),
    run: strangers,
  },
  'the ref of another account': { item: 12, run: flood },
  'lists nobody reads': { item: 13, prepare: hoard, run: unread },
  'messages nobody reads': { item: 13, prepare: converse, run: unreadMessages },
  'five lists a second': { item: 13, prepare: hoard, run: lists },
  'replays nobody reads': { item: 13, prepare: speak, run: replays },
  '40 slow uploads': { item: 14, run: slowUploads },
  'files without money': { item: 14, run: store },
}

async function fill(
  { urls, poorKeys, ms }: Assault,
  answers: Record<string, number>,
  isDeleted: boolean,
) {
  const body = JSON.stringify({ instructions: 'i'.repeat(instructionBytes) })
  await steadily({ ms, perSecond: 10 }, async (i) => {
    const url = (urls[i % 2] ?? '') + sessions
    const key = poorKeys[0] ?? ''
    const made = await call({ url, key, body, headers: { 'idempotency-key': randomUUID() } })
    tell(answers, made)
    const id = sessionIn(made)
    if (isDeleted && id) await call({ method: 'DELETE', url: `${url}/${id}`, key })
  })
}

/** Opens the connection again each time that the gateway closes it. */
async function keepOpen(many: number, ms: number, open: (i: number) => Promise<Held>) {
  const held = await Promise.all(Array.from({ length: many }, (_, i) => open(i)))
  let opened = many
  for (const end = performance.now() + ms; performance.now() < end; await pause(250)) {
    for (const [i, one] of held.entries()) {
      if (one.isOpen) continue
      held[i] = await open(i)
      opened++
    }
  }
  for (const { socket } of held) socket.destroy()
  return opened
}

async function announce({ urls, poorKeys, ms }: Assault, answers: Record<string, number>) {
  const head = headOf(
    '/v1/chat/completions',
    poorKeys[0] ?? '',
    ['Content-Type: application/json', `Content-Length: ${32 * MiB}`],
    'POST',
  )
  answers['opened'] = await keepOpen(8, ms, () => hold(urls[0], head))
}

/** All bodies together have 256 MiB; nine of these leave less than the honest customer's large body needs. */
const dataUrlBytes = 28.42 * MiB

/** Requests that are answered slowly, and are paid for. */
async function dataUrls({ urls, richKey, ms }: Assault, answers: Record<string, number>) {
  const url = `data:image/png;base64,${'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAA'.repeat(dataUrlBytes / 48)}`
  const messages = [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }]
  const body = JSON.stringify({ model: 'silent', messages, stream: true, max_tokens: 16 })
  const more = ['Content-Type: application/json', `Content-Length: ${body.length}`]
  const head = headOf('/v1/chat/completions', richKey, more, 'POST')
  const open = async () => {
    const held = await hold(urls[0], head)
    held.socket.write(body, 'latin1')
    await pause(100)
    return held
  }
  answers['opened'] = await keepOpen(9, ms, open)
}

let bodies: readonly Buffer[] = []

function makeBodies(bytes: number): void {
  bodies = [0, 1, 2, 3].map((way) => Buffer.from(smallValues(bytes, way)))
}

async function values(
  { urls, poorKeys, ms }: Assault,
  answers: Record<string, number>,
  perSecond: number,
) {
  await steadily({ ms, perSecond, most: 4 }, async (i) => {
    const url = `${urls[0]}/v1/chat/completions`
    tell(answers, await call({ url, key: poorKeys[0] ?? '', body: bodies[i % 4] }))
  })
}

async function strangers({ urls, ms }: Assault, answers: Record<string, number>) {
  await steadily({ ms, perSecond: 200, most: 64 }, async (i) => {
    const from = `127.0.${1 + (i % 200)}.1`
    const url = `${urls[0]}/v1/chat/completions`
    tell(answers, await call({ url, key: newKey(newRef()), body: bodies[i % 4], from }))
  })
}

/** Half of the requests have a key that was valid once. */
async function flood(one: Assault, answers: Record<string, number>) {
  const { urls, victimRef, revokedKey, ms } = one
  await steadily({ ms, perSecond: 400 }, async (i) => {
    const key = i % 2 === 0 ? revokedKey : newKey(victimRef)
    tell(answers, await call({ url: `${urls[0]}/api/billing/balance`, key }))
  })
}

/** Makes sessions whose list is long: 8 MiB of instructions, or as much as the quota allows. */
async function hoard({ urls, poorKeys }: Assault, answers: Record<string, number>) {
  const key = poorKeys[0] ?? ''
  const instructions = 'i'.repeat(instructionBytes)
  const body = JSON.stringify({ instructions, metadata: { a: 'm'.repeat(500) } })
  for (let made = 0; made < 8 * MiB; made += instructionBytes) {
    const answer = await call({ url: urls[0] + sessions, key, body })
    tell(answers, answer)
    if (answer.status !== 201) return
  }
}

const sessionIn = ({ text }: { readonly text: string }) => /"id":"(sess_\w+)"/.exec(text)?.[1] ?? ''

const newSession = async (url: string, key: string) =>
  sessionIn(await call({ url: url + sessions, key, body: '{}' }))

async function unread({ urls, poorKeys, ms }: Assault, answers: Record<string, number>) {
  const head = headOf(`${sessions}?limit=100`, poorKeys[0] ?? '')
  answers['opened'] = await keepOpen(80, ms, () => hold(urls[0], head, { reads: false }))
}

let spoken = ''

/** Makes a session with four messages of nearly 1 MiB each. */
async function converse({ urls, richKey: key }: Assault, answers: Record<string, number>) {
  const id = await newSession(urls[0], key)
  spoken = `${sessions}/${id}/messages`
  const content = 'all of the words '.repeat(Math.floor((0.9 * MiB) / 17))
  const body = JSON.stringify({ model: 'free', content, stream: false, max_tokens: 16 })
  for (let i = 0; i < 4; i++) tell(answers, await call({ url: urls[0] + spoken, key, body }))
}

async function unreadMessages({ urls, richKey, ms }: Assault, answers: Record<string, number>) {
  const head = headOf(`${spoken}?limit=100`, richKey)
  answers['opened'] = await keepOpen(80, ms, () => hold(urls[0], head, { reads: false }))
}

async function lists({ urls, poorKeys, ms }: Assault, answers: Record<string, number>) {
  await steadily({ ms, perSecond: 5 }, async () => {
    tell(answers, await call({ url: `${urls[0]}${sessions}?limit=100`, key: poorKeys[0] ?? '' }))
  })
}

let replayed = ''

/** Makes a message with 5 MiB of frames. */
async function speak({ urls, richKey: key }: Assault, answers: Record<string, number>) {
  const id = await newSession(urls[0], key)
  const body = JSON.stringify({ model: 'huge', content: 'Hi', max_tokens: 1600 })
  const said = await call({ url: `${urls[0]}${sessions}/${id}/messages`, key, body })
  tell(answers, { status: said.status, text: '' })
  const message = /id: (msg_\w+):/.exec(said.text)?.[1] ?? ''
  replayed = `${sessions}/${id}/messages/${message}/stream`
}

async function replays({ urls, richKey, ms }: Assault, answers: Record<string, number>) {
  const head = headOf(replayed, richKey)
  answers['opened'] = await keepOpen(200, ms, () => hold(urls[0], head, { reads: false }))
}

const partHead = (mark: string) =>
  `--${mark}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n`

async function slowUploads({ urls, poorKeys, ms }: Assault, answers: Record<string, number>) {
  const mark = 'slow'
  const ids = await Promise.all(poorKeys.slice(0, 2).map((key) => newSession(urls[0], key)))
  const more = [
    `Content-Type: multipart/form-data; boundary=${mark}`,
    `Content-Length: ${MiB / 16}`,
  ]
  const open = (i: number) => {
    const path = `/api/files/upload?session_id=${ids[i % 2]}`
    return hold(urls[0], headOf(path, poorKeys[i % 2] ?? '', more, 'POST') + partHead(mark) + 'abc')
  }
  // With one byte every 10 s, each upload sends one byte at most during the attack.
  answers['opened'] = await keepOpen(40, ms, open)
}

/** Stores files up to the quota, and beyond it if the gateway lets it. */
async function store({ urls, poorKeys, ms }: Assault, answers: Record<string, number>) {
  const key = poorKeys[0] ?? ''
  const id = await newSession(urls[0], key)
  const mark = 'store'
  const body = Buffer.concat([
    Buffer.from(partHead(mark)),
    Buffer.alloc(MiB, 1),
    Buffer.from(`\r\n--${mark}--\r\n`),
  ])
  const headers = { 'content-type': `multipart/form-data; boundary=${mark}` }
  await steadily({ ms, perSecond: 8, most: 8 }, async (i) => {
    const url = `${urls[i % 2]}/api/files/upload?session_id=${id}`
    tell(answers, await call({ url, key, body, headers }))
  })
}

export async function assault(order: Assault): Promise<Answers> {
  const attack = attacks[order.attack]
  const answers: Record<string, number> = {}
  if (order.step === 'prepare') await attack?.prepare?.(order, answers)
  else await attack?.run(order, answers)
  return answers
}
