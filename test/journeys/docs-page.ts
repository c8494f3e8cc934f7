// /docs in a browser: it shows the routes, tries one with a key, and asks no other host for anything.

import t from 'tap'
import { openChromium } from '../../scripts/chromium.ts'
import type { Heard, Told } from '../../scripts/chromium.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { eventually } from '../fixtures/until.ts'

const yaml = `models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1' }] } }`

t.test('the page shows and tries the routes, within its policy', async (t) => {
  const gateway = await startGateway(t, { yaml })
  const { key } = await gateway.account(7)
  const undo = new AsyncDisposableStack()
  t.teardown(() => undo.disposeAsync())
  const chromium = await openChromium(undo)
  const requests: string[] = []
  const complaints: string[] = []
  chromium.listen((heard) => note(heard, requests, complaints))
  const { targetId } = await chromium.send('Target.createTarget', { url: 'about:blank' })
  const { sessionId } = await chromium.send('Target.attachToTarget', { targetId, flatten: true })
  const session = String(sessionId)
  for (const domain of ['Network', 'Log', 'Runtime', 'Page'])
    await chromium.send(`${domain}.enable`, {}, session)
  const run = async (expression: string): Promise<unknown> => {
    const options = { expression, returnByValue: true, awaitPromise: true }
    const { result, exceptionDetails } = await chromium.send('Runtime.evaluate', options, session)
    if (exceptionDetails) throw new Error(JSON.stringify(exceptionDetails))
    return (result as Told)['value']
  }
  const until = (expression: string) => eventually(async () => (await run(expression)) || undefined)
  await chromium.send('Page.navigate', { url: `${gateway.url}/docs` }, session)
  await until(`document.querySelectorAll('.opblock').length > 20`)

  t.comment('the key is entered, and a route is tried')
  await run(`document.querySelector('.btn.authorize').click()`)
  await until(`document.querySelector('.auth-container input') !== null`)
  await run(`{
    const input = document.querySelector('.auth-container input')
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(input, '${key}')
    input.dispatchEvent(new Event('input', { bubbles: true }))
  }`)
  await run(`document.querySelector('.auth-container .authorize').click()`)
  await until(`document.querySelector('.auth-container input') === null`)
  await run(
    `document.querySelector('.btn-done, .auth-btn-wrapper .close-modal, .close-modal').click()`,
  )
  const balance = `[...document.querySelectorAll('.opblock')].find((one) => one.id.endsWith('getBalance'))`
  await run(`${balance}.querySelector('.opblock-summary-control').click()`)
  await until(`${balance}.querySelector('.try-out__btn') !== null`)
  await run(`${balance}.querySelector('.try-out__btn').click()`)
  await until(`${balance}.querySelector('.execute') !== null`)
  await run(`${balance}.querySelector('.execute').click()`)
  const shown = `${balance}.querySelector('.live-responses-table .highlight-code')?.textContent ?? ''`
  await until(`(${shown}).includes('billing.balance')`)
  t.match(await run(shown), /"available": ?7\b/)

  const { origin } = new URL(gateway.url)
  const strange = requests.filter(
    (url) => !url.startsWith(`${origin}/`) && !url.startsWith('data:'),
  )
  t.strictSame(strange, [], 'no other host was asked')
  t.ok(requests.includes(`${origin}/api/billing/balance`))
  t.notOk(
    requests.some((url) => url.includes(key)),
    'the key is in no URL',
  )
  t.strictSame(complaints, [], 'nothing was against the policy')
  const kept = await run(
    `JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])`,
  )
  t.equal(kept, '[{},{},""]', 'the key is nowhere but in the page')
})

function note({ method, params }: Heard, requests: string[], complaints: string[]): void {
  if (method === 'Network.requestWillBeSent') {
    requests.push(String((params['request'] as Told)['url']))
  }
  if (method === 'Log.entryAdded') {
    const { level, text } = params['entry'] as Told
    if (level === 'error') complaints.push(String(text))
  }
  if (method === 'Runtime.exceptionThrown') complaints.push(JSON.stringify(params))
}
