// `npm run pictures`: draws each docs/images/*.mmd, a text in Mermaid's language, as the SVG beside it. Fetches Mermaid from
// npm (it is in no install, because it is larger than everything else here) and needs Debian's Chromium, which is installed
// as for the tests.

import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import type { Page } from 'playwright-core'
import { openBrowser } from '../test/fixtures/page-browser.ts'
import { npmPackage } from './cache.ts'
import { endOnSignals, withTeardown } from './ending.ts'
import { markOf } from './picture-mark.ts'

const folder = resolve(import.meta.dirname, '../docs/images')
const mermaid = 'mermaid@12.3.0'
/** One look for all; the ground is white, so that a picture can be read on a dark page, too. */
const look = {
  startOnLoad: false,
  theme: 'neutral',
  fontFamily: 'sans-serif',
  htmlLabels: false,
  flowchart: { htmlLabels: false },
  sequence: { height: 40, mirrorActors: false },
  // The ids in the SVG are then the same each time.
  deterministicIds: true,
}

endOnSignals()
await withTeardown(async (t) => {
  const browser = await openBrowser(t)
  const page = await browser.newPage()
  await page.addScriptTag({ path: join(await npmPackage(mermaid), 'dist/mermaid.min.js') })
  await page.evaluate(`mermaid.initialize(${JSON.stringify(look)})`)
  const names = (await readdir(folder)).filter((name) => name.endsWith('.mmd'))
  for (const name of names.toSorted()) {
    const text = await readFile(join(folder, name), 'utf8')
    const svg = await draw(page, text)
    await showAsImage(page, svg)
    await writeFile(join(folder, name.replace(/mmd$/, 'svg')), svg)
    console.log(`${name}: ${svg.length} bytes`)
  }
})

async function draw(page: Page, text: string): Promise<string> {
  const drawn = `mermaid.render('picture', ${JSON.stringify(text)}).then(({ svg }) => svg)`
  const svg = String(await page.evaluate(drawn))
  const withGround = svg.replace('style="', 'style="background: white; ')
  return `${markOf(text)}\n${withGround}\n`
}

/** Throws if a browser cannot show it, as it shows the pictures of a page. */
async function showAsImage(page: Page, svg: string): Promise<void> {
  const url = `data:image/svg+xml;base64,${Buffer.from(svg).toString('base64')}`
  await page.evaluate(`Object.assign(new Image(), { src: '${url}' }).decode()`)
}
