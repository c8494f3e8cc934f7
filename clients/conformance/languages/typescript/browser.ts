// The client in a real browser, in a page whose origin is not the gateway's: streams, an abort, a connection that is
// cut, files with their progress. What the page does is in page.js.

import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import type { RequestListener } from 'node:http'
import { join } from 'node:path'
import { openChromium } from '../../../../scripts/chromium.ts'
import type { Chromium } from '../../../../scripts/chromium.ts'
import { openOrigin } from '../../../../scripts/origin.ts'
import { startCuttingProxy } from '../../../../test/fixtures/cutting-proxy.ts'
import { teardownOf } from '../../../../test/fixtures/teardown.ts'
import { startGateway, text } from '../../gateway.ts'

interface Options {
  readonly apiKey: string
  readonly baseURL: string
}

type Act = (name: string, options: Options) => Promise<unknown>

/** `client`: the library as one module. */
export async function checkBrowser(client: string): Promise<void> {
  await using undo = new AsyncDisposableStack()
  const page = await readFile(join(import.meta.dirname, 'page.js'), 'utf8')
  const origin = await openOrigin(undo, serving({ '/tollgate.js': client, '/page.js': page }))
  const gateway = await startGateway(undo, { cors: { origins: [origin] } })
  const { key: apiKey } = await gateway.account(1_000_000)
  const proxy = await startCuttingProxy(teardownOf(undo), gateway.url)
  const act = await openPage(await openChromium(undo), origin)
  const direct = { apiKey, baseURL: `${gateway.url}/v1` }
  await checkStreams(act, direct)
  await checkFiles(act, direct)
  // Each cut is after the heads of all that a page requests on one connection, preflights included, and inside the
  // stream. It is a FIN, because a reset may destroy data that had arrived. A busy browser may lose data at a FIN, too,
  // so there are fewer cuts than the client's attempts without progress.
  proxy.setCut({ afterBytes: 9000, how: 'fin' }, 4)
  const cut = (await act('stream', { apiKey, baseURL: proxy.url })) as { readonly text: string }
  assert.equal(cut.text, text, 'each chunk once, over connections that are cut')
  assert.ok(proxy.cuts > 0, `${proxy.cuts} connections were cut`)
}

async function checkStreams(act: Act, options: Options): Promise<void> {
  const { ids, ...stream } = (await act('stream', options)) as { readonly ids: readonly string[] }
  assert.deepEqual(stream, { text, status: 'completed' })
  // The gateway says which headers a page of another origin may read.
  assert.deepEqual(
    ids.map((id) => id.replace(/_.*/, '')),
    ['msg', 'msg', 'req'],
  )
  assert.deepEqual(await act('abort', options), {
    count: 3,
    error: 'AbortError',
    isActive: true,
    status: 'cancelled',
  })
  const { requestId, ...refusal } = (await act('refusal', options)) as {
    readonly requestId: string
  }
  assert.deepEqual(refusal, { name: 'NotFoundError', status: 404, code: 'session_not_found' })
  assert.match(requestId, /^req_/)
}

interface Uploaded {
  readonly progress: readonly (readonly [number, number])[]
}

async function checkFiles(act: Act, options: Options): Promise<void> {
  const { progress, ...upload } = (await act('upload', options)) as Uploaded
  assert.deepEqual(upload, { filename: 'größe "1".bin', isSame: true, isRest: true })
  const sent = progress.map(([bytes]) => bytes)
  assert.ok(sent.length > 0 && sent.every((bytes, i) => bytes > (sent[i - 1] ?? 0)), `${sent}`)
  assert.deepEqual(progress.at(-1), [5_000_000, 5_000_000])
  assert.ok(progress.every(([, total]) => total === 5_000_000))
  assert.deepEqual(await act('streamed', options), { bytes: 18, type: 'text/plain; charset=utf-8' })
  assert.equal(await act('left', options), 'TimeoutError')
}

function serving(modules: Readonly<Record<string, string>>): RequestListener {
  const html = '<!doctype html><title>page</title><script type="module" src="/page.js"></script>'
  return ({ url = '/' }, res) => {
    const module = modules[url]
    res.setHeader('content-type', module === undefined ? 'text/html' : 'text/javascript')
    res.end(module ?? html)
  }
}

async function openPage(chromium: Chromium, url: string): Promise<Act> {
  const { targetId } = await chromium.send('Target.createTarget', { url: 'about:blank' })
  const attached = await chromium.send('Target.attachToTarget', { targetId, flatten: true })
  const session = String(attached.sessionId)
  await chromium.send('Page.enable', {}, session)
  const loaded = Promise.withResolvers<void>()
  chromium.listen(({ method, sessionId }) => {
    if (method === 'Page.loadEventFired' && sessionId === session) loaded.resolve()
  })
  await chromium.send('Page.navigate', { url }, session)
  await loaded.promise
  return async (name, options) => {
    const expression = `act(${JSON.stringify(name)}, ${JSON.stringify(options)})`
    const asked = { expression, awaitPromise: true, returnByValue: true }
    const { result, exceptionDetails } = await chromium.send('Runtime.evaluate', asked, session)
    assert.equal(exceptionDetails, undefined, `${name}: ${JSON.stringify(exceptionDetails)}`)
    return (result as { readonly value: unknown }).value
  }
}
