// Loads the packages that the server hands out of node_modules (assets.ts), when a view first needs them. This is the
// only file of the page that imports any.

/** @param {string} name */
const url = (name) => new URL(`./packages/${name}`, import.meta.url).href

/**
 * uPlot draws the charts: 41 KB gzipped, one file, no dependencies, and it sets styles by script only, as the page's
 * Content-Security-Policy asks.
 * @returns {Promise<typeof import('uplot')>}
 */
export async function loadPlot() {
  return (await import(url('uplot.js'))).default
}

/** @returns {Promise<typeof import('marked')>} */
export function loadMarked() {
  return import(url('marked.js'))
}

/** @returns {Promise<typeof import('dompurify').default>} */
export async function loadPurify() {
  return (await import(url('dompurify.js'))).default
}

/** @returns {Promise<typeof import('eventsource-parser')>} */
export function loadEvents() {
  return import(url('eventsource-parser/index.js'))
}
