// Reads the stream of an answer to its end. After a cut it goes on after the last event that it has, as often as
// needed.
// The answer belongs to the gateway, so that a page that is loaded anew finds it again.

import { ApiError } from './api.js'
import { loadEvents } from './packages.js'
import { withKey } from './playground-key.js'

/**
 * @typedef {object} Hearing
 * @property {(delta: { content?: string, reasoning?: string }) => void} hear
 * @property {(isCut: boolean) => void} [cut] the connection was lost, or is there again
 * @property {AbortSignal} signal
 *
 * @typedef {{ lastId: string, isEnded: boolean }} Place
 */

const firstWaitMs = 500
const longestWaitMs = 10_000

/**
 * @param {string} stream path of the message's stream
 * @param {Hearing & { response?: Response | undefined }} hearing `response`: a stream that is open already
 */
export async function followAnswer(stream, { response, hear, cut, signal }) {
  /** @type {Place} */
  const place = { lastId: '', isEnded: false }
  let next = response
  for (let waitMs = firstWaitMs; ; waitMs = Math.min(waitMs * 2, longestWaitMs)) {
    try {
      next ??= await reopen(stream, place, signal)
      cut?.(false)
      // Nothing follows the last event.
      if (next.status === 204) return
      const before = place.lastId
      await readEvents(next, { place, hear })
      if (place.isEnded) return
      if (place.lastId !== before) waitMs = firstWaitMs
    } catch (error) {
      if (signal.aborted) throw error
      // The stream is no longer kept; the message is.
      if (error instanceof ApiError && error.code === 'stream_expired') return
      if (!isPassing(error)) throw error
      // The network failed, or the gateway has no time now: the stream is asked for again.
    }
    next = undefined
    cut?.(true)
    await wait(waitMs, signal)
  }
}

/** @param {unknown} error */
function isPassing(error) {
  if (!(error instanceof ApiError)) return error instanceof TypeError
  return error.code === 'network' || error.status >= 500 || error.status === 429
}

/**
 * @param {string} stream
 * @param {Place} place
 * @param {AbortSignal} signal
 */
function reopen(stream, { lastId }, signal) {
  /** @type {Record<string, string>} */
  const place = lastId === '' ? {} : { 'last-event-id': lastId }
  return withKey(stream, {
    signal,
    headers: { ...place, accept: 'text/event-stream' },
    isStream: true,
  })
}

/**
 * @param {Response} response
 * @param {{ place: Place, hear: Hearing['hear'] }} options
 */
async function readEvents(response, { place, hear }) {
  const { createParser } = await loadEvents()
  const parser = createParser({
    onEvent({ id, data }) {
      if (id !== undefined) place.lastId = id
      if (data === '[DONE]') return void (place.isEnded = true)
      const chunk = parsed(data)
      // The message says the same in full.
      if (chunk?.error) return void (place.isEnded = true)
      const delta = chunk?.choices?.[0]?.delta
      if (delta)
        hear({
          content: textOf(delta.content),
          reasoning: textOf(delta.reasoning_content ?? delta.reasoning),
        })
    },
  })
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const piece = await reader?.read()
    if (!piece || piece.done) return
    parser.feed(piece.value)
    if (place.isEnded) return void reader?.cancel().catch(() => {})
  }
}

/** @param {string} data */
function parsed(data) {
  try {
    return JSON.parse(data)
  } catch {
    return undefined
  }
}

/** @param {unknown} value */
const textOf = (value) => (typeof value === 'string' ? value : '')

/**
 * @param {number} ms
 * @param {AbortSignal} signal
 * @returns {Promise<void>}
 */
function wait(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms)
    const leave = () => {
      clearTimeout(timer)
      reject(signal.reason)
    }
    signal.addEventListener('abort', leave, { once: true })
  })
}
