// What a user does, with each client, against a real gateway with its Redis and its store: over a connection that is
// cut, with files of 50 MB, until the last token of a balance.

import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startCuttingProxy } from '../../test/fixtures/cutting-proxy.ts'
import type { Cut } from '../../test/fixtures/cutting-proxy.ts'
import type { TestGateway } from '../../test/fixtures/gateway.ts'
import { teardownOf } from '../../test/fixtures/teardown.ts'
import { tempDir } from '../../test/fixtures/temp-dir.ts'
import type { Json, Step } from './case.ts'
import type { DriverProcess } from './driver.ts'
import { startGateway, text, words } from './gateway.ts'
import { hashOf } from './transcript.ts'

export interface World {
  readonly gateway: TestGateway
  /** 50 MB, then three times as much: memory must not grow with the size. */
  readonly files: readonly [Large, Large]
}

interface Large {
  readonly path: string
  readonly bytes: number
  readonly sha256: string
}

const megabyte = 1_000_000
/** How much more memory a process may have after streaming 100 MB in each direction (garbage). */
const slackBytes = 48 * megabyte

export async function startWorld(undo: AsyncDisposableStack): Promise<World> {
  const gateway = await startGateway(undo)
  const folder = await tempDir(teardownOf(undo))
  const large = async (bytes: number): Promise<Large> => {
    const content = randomBytes(bytes)
    const path = join(folder, `${bytes}.bin`)
    await writeFile(path, content)
    return { path, bytes, sha256: hashOf(content) }
  }
  return { gateway, files: [await large(50 * megabyte), await large(150 * megabyte)] }
}

export class Traveller {
  readonly #world: World
  readonly #driver: DriverProcess

  constructor(world: World, driver: DriverProcess) {
    this.#world = world
    this.#driver = driver
  }

  /** Returns the results of the steps; asserts that none failed. */
  async #do(key: string, steps: readonly Step[], url = this.#world.gateway.url) {
    const { steps: saw } = await this.#driver.tell({
      line: { client: { base_url: `${url}/v1`, api_key: key }, steps },
    })
    return saw.map(({ ok, error }, i) => {
      assert.equal(error, undefined, `${steps[i]?.op}: ${JSON.stringify(error)}`)
      return ok as Json
    })
  }

  /** Through a proxy that cuts its first connection. */
  async #cut(key: string, { cut, steps }: { readonly cut: Cut; readonly steps: readonly Step[] }) {
    await using undo = new AsyncDisposableStack()
    const proxy = await startCuttingProxy(teardownOf(undo), this.#world.gateway.url)
    proxy.setCut(cut, 1)
    const saw = await this.#driver.tell({
      line: { client: { base_url: proxy.url, api_key: key }, steps },
    })
    assert.equal(proxy.cuts, 1)
    return saw.steps
  }

  async #sessionOf(key: string): Promise<string> {
    const [session] = await this.#do(key, [{ op: 'sessions.create', params: { title: 'T' } }])
    return String(session?.id)
  }

  async talk(): Promise<void> {
    const { key } = await this.#world.gateway.account(1000)
    const session = await this.#sessionOf(key)
    const say = { session_id: session, content: 'Hi' }
    const [streamed, sent, balance, list, charges] = await this.#do(key, [
      { op: 'messages.create', ...say, report: 'texts', final: true },
      { op: 'messages.send', ...say },
      { op: 'billing.balance' },
      { op: 'messages.list', session_id: session, params: {} },
      { op: 'billing.transactions', params: {} },
    ])
    assert.equal((streamed?.chunks as readonly string[] | undefined)?.join(''), text)
    for (const message of [streamed?.final as Json, sent]) {
      assert.deepEqual(
        [message?.status, message?.content, message?.cost],
        ['completed', text, words],
      )
    }
    assert.deepEqual([balance?.balance, balance?.spent], [1000 - 2 * words, 2 * words])
    const roles = (list as unknown as readonly Json[]).map(({ role }) => role)
    assert.deepEqual(roles, ['user', 'assistant', 'user', 'assistant'])
    const amounts = (charges as unknown as readonly Json[]).map(({ amount }) => amount)
    assert.deepEqual(amounts, [-words, -words, 1000])
  }

  async cutAndReadOn(): Promise<void> {
    const { key } = await this.#world.gateway.account(1000)
    const session = await this.#sessionOf(key)
    const steps: readonly Step[] = [
      { op: 'messages.create', session_id: session, content: 'Hi', report: 'texts', final: true },
    ]
    for (const [i, how] of (['fin', 'reset'] as const).entries()) {
      const [step] = await this.#cut(key, { cut: { afterBytes: 5000 + 61 * i, how }, steps })
      const { chunks, final } = (step?.ok ?? {}) as { chunks?: readonly string[]; final?: Json }
      assert.equal(chunks?.join(''), text, JSON.stringify(step?.error))
      assert.deepEqual([final?.status, final?.cost], ['completed', words])
    }
    const [balance] = await this.#do(key, [{ op: 'billing.balance' }])
    assert.equal(balance?.balance, 1000 - 2 * words, 'each message was paid for once')
  }

  async cutChat(): Promise<void> {
    const { key } = await this.#world.gateway.account(1000)
    const body = { model: 'demo', messages: [{ role: 'user', content: 'Hi' }] }
    const cut = { afterBytes: 5000, how: 'fin' } as const
    const [step] = await this.#cut(key, {
      cut,
      steps: [{ op: 'chat.stream', body, report: 'texts' }],
    })
    const { error, chunks } = step as { error?: Json; chunks?: readonly string[] }
    assert.equal(error?.class, 'IncompleteStreamError')
    assert.ok((chunks?.length ?? 0) > 1 && text.startsWith(chunks?.join('') ?? '?'))
  }

  async upload(): Promise<void> {
    const { key } = await this.#world.gateway.account(1000)
    const session = await this.#sessionOf(key)
    const peaks: number[] = []
    for (const { path, bytes, sha256 } of this.#world.files) {
      const [made, memory] = await this.#do(key, [
        { op: 'files.upload', session_id: session, filename: 'a.bin', path },
        { op: 'memory' },
      ])
      const { file, progress } = made as { file?: Json; progress?: readonly unknown[] }
      assert.deepEqual([file?.bytes, file?.sha256], [bytes, sha256])
      assert.deepEqual(progress?.at(-1), [bytes, bytes])
      peaks.push(Number(memory?.peak))
      const [content, after] = await this.#do(key, [
        { op: 'files.content', id: String(file?.id) },
        { op: 'memory' },
      ])
      assert.deepEqual([content?.bytes, content?.sha256], [bytes, sha256])
      peaks.push(Number(after?.peak))
    }
    const [, warm = 0, up = 0, down = 0] = peaks
    const grown = `grew by ${Math.round((up - warm) / megabyte)} and ${Math.round((down - up) / megabyte)} MB`
    assert.ok(down - warm < slackBytes, `memory ${grown} over 100 MB more each way`)
  }

  async cutDownload(): Promise<void> {
    const { key } = await this.#world.gateway.account(1000)
    const session = await this.#sessionOf(key)
    const [{ path, bytes, sha256 }] = this.#world.files
    const [made] = await this.#do(key, [
      { op: 'files.upload', session_id: session, filename: 'a.bin', path },
    ])
    const { id } = (made as { readonly file: Json }).file
    const cut = { afterBytes: 4_321_987, how: 'reset' } as const
    const [step] = await this.#cut(key, { cut, steps: [{ op: 'files.content', id }] })
    const ok = step?.ok as Json | undefined
    assert.deepEqual([ok?.bytes, ok?.sha256], [bytes, sha256], JSON.stringify(step?.error))
  }

  async list(): Promise<void> {
    const { key } = await this.#world.gateway.account(1000)
    const create = { op: 'sessions.create', params: {} }
    const made = await this.#do(
      key,
      Array.from({ length: 250 }, () => create),
    )
    const [listed] = await this.#do(key, [{ op: 'sessions.list', params: { limit: 100 } }])
    const ids = (all: unknown) => (all as readonly Json[]).map(({ id }) => id)
    assert.deepEqual(ids(listed), ids(made).toReversed())
  }

  async exhaust(): Promise<void> {
    const { key } = await this.#world.gateway.account(150)
    const session = await this.#sessionOf(key)
    const send = { op: 'messages.send', session_id: session, content: 'Hi' }
    const { steps } = await this.#driver.tell({
      line: {
        client: { base_url: this.#world.gateway.url, api_key: key },
        steps: [send, send, send, send, { op: 'billing.balance' }],
      },
    })
    const costs = steps.slice(0, 3).map(({ ok }) => (ok as Json | undefined)?.cost)
    assert.deepEqual(costs, [words, words, 150 - 2 * words])
    assert.equal((steps[2]?.ok as Json | undefined)?.finish_reason, 'length')
    const refused = steps[3]?.error as Json | undefined
    assert.deepEqual([refused?.class, refused?.status], ['InsufficientBalanceError', 402])
    const left = steps[4]?.ok as Json | undefined
    assert.deepEqual([left?.balance, left?.spent], [0, 150])
  }

  async cancel(): Promise<void> {
    const { key } = await this.#world.gateway.account(100_000)
    const session = await this.#sessionOf(key)
    const during = [{ after: 3, step: { op: 'stream.cancel' } }]
    const [ok] = await this.#do(key, [
      { op: 'messages.create', session_id: session, content: 'without end', during, final: true },
    ])
    const final = ok?.final as Json | undefined
    assert.equal(final?.status, 'cancelled')
    assert.ok(String(final?.content).startsWith('w0 w1 '), 'what came before is kept')
    const [balance] = await this.#do(key, [{ op: 'billing.balance' }])
    assert.deepEqual([balance?.spent, balance?.reserved], [final?.cost, 0])
  }
}

export const journeys: readonly (readonly [string, (traveller: Traveller) => Promise<void>])[] = [
  ['real gateway: talk in a session, and see what it cost', (one) => one.talk()],
  ['real gateway: cut in mid-stream, read on, paid once', (one) => one.cutAndReadOn()],
  ['real gateway: a chat that is cut is not called complete', (one) => one.cutChat()],
  ['real gateway: 50 MB up and down, in constant memory', (one) => one.upload()],
  ['real gateway: a download that is cut goes on', (one) => one.cutDownload()],
  ['real gateway: 250 sessions, listed', (one) => one.list()],
  ['real gateway: a balance, to its last token', (one) => one.exhaust()],
  ['real gateway: cancel', (one) => one.cancel()],
]
