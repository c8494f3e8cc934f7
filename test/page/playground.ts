// The playground: a chat as somebody sees it who writes, stops, attaches, loses the connection and loads the page anew.

import { connect, createServer } from 'node:net'
import type { Socket } from 'node:net'
import t from 'tap'
import type { Test } from 'tap'
import {
  noteShifts,
  openBrowser,
  settled,
  shows,
  startPage,
  twoFrames,
} from '../fixtures/page-browser.ts'
import { chat } from '../fixtures/backend-model.ts'
import { Gate } from '../fixtures/gate.ts'
import { listenOn } from '../fixtures/listen.ts'
import { transactionsOf } from '../fixtures/money.ts'

const browser = await openBrowser(t)

/** A picture of one pixel. */
const pixel = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==',
  'base64',
)

t.test('an answer streams, with its time, speed and cost, and the charge is there', async (t) => {
  const gate = new Gate()
  const script = chat({
    chunks: 4,
    gate,
    text: (i) => ['**It ', 'works', '**', ', truly.'][i] ?? '',
  })
  const { enter, gateway, account } = await startPage(t, {
    browser,
    script,
    account: 'currency: { code: EUR, tokens: 1000 }',
  })
  const page = await enter('Playground')
  await page.getByLabel('Model', { exact: true }).selectOption('gpt-large')
  await page.getByLabel('Your message').fill('Does it?')
  await page.keyboard.press('Enter')
  gate.next(3)
  await page.locator('.markdown').getByText('It works').waitFor()
  t.equal(await page.getByText('cost').count(), 0, 'no figures before the end')
  gate.open()
  await page.locator('strong', { hasText: 'It works' }).waitFor()
  const figures = (await page.locator('.figures').last().textContent()) ?? ''
  t.match(
    figures,
    /^[\d,]+ ms to the first token · [\d,]+ tokens\/s · \d+ in, 4 out · cost \d+ tokens \(€0\.0\d+\)$/,
  )
  const [, charge] = await transactionsOf(gateway, account)
  t.match(charge, {
    type: 'charge',
    model: 'gpt-large',
    amount: -Number(/cost (\d+)/.exec(figures)?.[1]),
  })
  t.equal(await page.getByLabel('Your message').inputValue(), '')
})

t.test('nothing jumps while an answer grows', async (t) => {
  const gate = new Gate()
  const lines = 30
  const script = chat({ chunks: lines, gate, text: (i) => `Line ${i}, to its end.\n\n` })
  const { enter } = await startPage(t, { browser, script })
  const page = await enter('Playground')
  await page.evaluate(noteShifts)
  await page.getByLabel('Your message').fill('Say something')
  await page.evaluate(`document.querySelector('.composer').requestSubmit()`)
  await page.getByText('Waiting').waitFor()
  await page.evaluate(twoFrames)
  // The chunk of the role, which has no text.
  gate.next()
  for (let i = 0; i < lines; i++) {
    gate.next()
    await page.getByText(`Line ${i}, to its end.`).waitFor()
    await page.evaluate(twoFrames)
  }
  gate.open()
  await page.locator('.figures:not(:empty)').waitFor()
  await page.evaluate(twoFrames)
  t.same(await page.evaluate('shifts'), [])
})

t.test('a page that is loaded anew in mid-answer goes on with it, to the letter', async (t) => {
  const gate = new Gate()
  const { enter, backend } = await startPage(t, { browser, script: chat({ chunks: 6, gate }) })
  const page = await enter('Playground')
  await page.getByLabel('Your message').fill('Count')
  await page.getByRole('button', { name: 'Send' }).click()
  gate.next(4)
  await page.locator('.markdown').getByText('w0 w1 w2').waitFor()
  await page.reload()
  await page.locator('.markdown').getByText('w0 w1 w2').waitFor()
  await shows(page, 'Count')
  t.ok(await page.getByRole('button', { name: 'Stop' }).isVisible())
  gate.open()
  await shows(page, /6 out/)
  t.equal((await page.locator('.markdown').textContent())?.trim(), 'w0 w1 w2 w3 w4 w5')
  t.equal(backend.requests.length, 1, 'the model was asked once')
  t.ok(await page.getByRole('button', { name: 'Send' }).isVisible())
  await page.reload()
  await shows(page, 'w0 w1 w2 w3 w4 w5')
})

t.test(
  'a connection that is cut in mid-answer is made anew, and the answer is whole',
  async (t) => {
    const gate = new Gate()
    const script = chat({ chunks: 6, gate })
    const { tab, link, gateway, backend } = await startPage(t, { browser, script })
    const wire = await startWire(t, gateway.url)
    const page = await tab()
    await page.goto((await link()).replace(gateway.url, wire.url))
    await settled(page, 'Overview')
    await page.getByRole('link', { name: 'Playground' }).click()
    await page.getByLabel('Your message').fill('Count')
    await page.getByRole('button', { name: 'Send' }).click()
    gate.next(3)
    await page.locator('.markdown').getByText('w0 w1').waitFor()
    wire.cut()
    await shows(page, 'The connection was lost. Reading on …')
    gate.next(1)
    wire.mend()
    await page.locator('.markdown').getByText('w0 w1 w2').waitFor()
    gate.open()
    await shows(page, /6 out/)
    t.equal((await page.locator('.markdown').textContent())?.trim(), 'w0 w1 w2 w3 w4 w5')
    t.equal(backend.requests.length, 1)
  },
)

/** What lies between a browser and the gateway. While it is cut, connections end as soon as they are made. */
async function startWire(t: Test, to: string) {
  const { hostname, port } = new URL(to)
  const open = new Set<Socket>()
  let isCut = false
  const server = createServer((client) => {
    if (isCut) return void client.destroy()
    const gateway = connect(Number(port), hostname)
    for (const socket of [client, gateway]) {
      open.add(socket)
      socket.on('error', () => undefined).on('close', () => open.delete(socket))
    }
    client.pipe(gateway).pipe(client)
  })
  const { url } = await listenOn(t, server)
  return {
    url,
    cut() {
      isCut = true
      for (const socket of open) socket.destroy()
    },
    mend: () => void (isCut = false),
  }
}

t.test('stop ends the answer at the model, and keeps what was said', async (t) => {
  const gate = new Gate()
  const { enter, backend } = await startPage(t, { browser, script: chat({ chunks: 50, gate }) })
  const page = await enter('Playground')
  await page.getByLabel('Your message').fill('Go on')
  await page.keyboard.press('Enter')
  gate.next(3)
  await page.locator('.markdown').getByText('w0 w1').waitFor()
  await page.getByRole('button', { name: 'Stop' }).click()
  await shows(page, 'Stopped.')
  t.equal((await page.locator('.markdown').textContent())?.trim(), 'w0 w1')
  t.ok(await page.getByRole('button', { name: 'Send' }).isVisible())
  await (
    await backend.request(0)
  ).closed
})

t.test('a file goes with the question, and one that is not taken says why', async (t) => {
  const { enter, backend } = await startPage(t, { browser, script: chat({ chunks: 2 }) })
  const page = await enter('Playground')
  const choose = async (name: string, text: string | Buffer) => {
    const [chooser] = await Promise.all([
      page.waitForEvent('filechooser'),
      page.getByRole('button', { name: 'Attach a file' }).click(),
    ])
    await chooser.setFiles({ name, mimeType: 'text/plain', buffer: Buffer.from(text) })
  }
  await choose('notes.txt', 'The sky is green.')
  await shows(page, '17 bytes')
  await choose('other.txt', 'Away with it.')
  await page.getByRole('button', { name: 'Remove other.txt' }).click()
  await page.getByLabel('Your message').fill('What colour?')
  await page.keyboard.press('Enter')
  await shows(page, /2 out/)
  const asked = (await backend.request(0)).body.toString()
  t.ok(asked.includes('The sky is green.') && !asked.includes('Away with it.'), asked)
  await page.locator('.question').getByText('notes.txt').waitFor()
  await page.reload()
  await page.locator('.question').getByText('notes.txt').waitFor()
  await page.getByLabel('Model', { exact: true }).selectOption('gpt-large')
  await choose('picture.png', pixel)
  await shows(page, `${pixel.length} bytes`)
  await page.getByLabel('Your message').fill('And now?')
  await page.keyboard.press('Enter')
  await shows(page, 'This model can’t read a file of this kind.')
  t.equal(await page.getByLabel('Your message').inputValue(), 'And now?', 'the question is kept')
})

t.test(
  'no money, a busy chat and a failed model are said in words; a second chat is empty',
  async (t) => {
    const gate = new Gate()
    const { enter, tab, visitor, gateway, backend, account } = await startPage(t, {
      browser,
      tokens: 50_000,
      script: chat({ chunks: 5, gate }),
    })
    const person = await visitor()
    const page = await enter('Playground', { visitor: person })
    await page.getByLabel('Your message').fill('First')
    await page.keyboard.press('Enter')
    // Then the session has the question, and its id is in the address.
    await backend.request(0)
    await page.waitForURL(/sess_/)
    const two = await tab({ visitor: person })
    await two.goto(page.url())
    await settled(two, 'Playground')
    gate.open()
    await shows(page, /5 out/)
    await shows(two, /5 out/)
    backend.once(({ res }) => void res.writeHead(500).end('no'))
    await page.getByLabel('Your message').fill('Second')
    await page.keyboard.press('Enter')
    await shows(page, 'The model failed.')
    await gateway.admin('POST', `accounts/${account.id}/adjust`, { amount: -49_900, note: 'gone' })
    await page.keyboard.press('Enter')
    await shows(page, 'The balance is not enough for this.')
    await page.getByRole('button', { name: 'New chat' }).click()
    await shows(page, 'What shall the model do?')
    t.equal(await page.locator('.answer').count(), 0)
  },
)

t.test('a clock that is an hour fast takes one more key, and not one for each call', async (t) => {
  const { enter } = await startPage(t, { browser })
  const page = await enter('Playground')
  let taken = 0
  page.on('request', (request) => {
    if (request.url().endsWith('/playground-key')) taken++
  })
  await page.clock.setSystemTime(Date.now() + 3_600_000)
  for (let i = 0; i < 3; i++) {
    await page.getByLabel('Your message').fill('Again')
    await page.keyboard.press('Enter')
    await page.locator('.figures').nth(i).waitFor()
  }
  t.equal(taken, 1)
})
