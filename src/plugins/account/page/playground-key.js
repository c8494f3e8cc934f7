// Calls of the public API by the playground, with its own key: the cookie opens nothing there. The key lives an hour, and
// a tab keeps it until the log-out.

import { ApiError, account, request } from './api.js'

/**
 * @typedef {object} Kept
 * @property {string} key
 * @property {number | null} renew_at Unix seconds; null: when it is refused
 */

const place = 'playground-key'
/** Taken anew before it ends, so that no answer is begun with a key that is about to. */
const spareSeconds = 300
/** @type {Promise<string> | undefined} */
let asked

/**
 * @param {string} path
 * @param {import('./api.js').Call} [call]
 * @returns {Promise<Response>}
 */
export async function withKey(path, call = {}) {
  const send = async () => {
    const authorization = `Bearer ${await keyOf()}`
    return await request(path, { ...call, headers: { ...call.headers, authorization } })
  }
  try {
    return await send()
  } catch (error) {
    // When the page's own session is over, there is nobody who could get another key.
    if (!(error instanceof ApiError) || error.status !== 401 || error.isSessionOver) throw error
    sessionStorage.removeItem(place)
    return await send()
  }
}

/** @returns {Promise<string>} */
async function keyOf() {
  const kept = /** @type {Kept | null} */ (JSON.parse(sessionStorage.getItem(place) ?? 'null'))
  if (kept && (kept.renew_at ?? Infinity) > Date.now() / 1000) return kept.key
  asked ??= take().finally(() => (asked = undefined))
  return await asked
}

async function take() {
  const { key, expires_at } = /** @type {{ key: string, expires_at: number }} */ (
    await account('playground-key', { method: 'POST' })
  )
  // The log-in is about to end and its keys with it, or this clock is wrong: a new key would be no better.
  const isShort = expires_at - spareSeconds <= Date.now() / 1000
  const renew_at = isShort ? null : expires_at - spareSeconds
  sessionStorage.setItem(place, JSON.stringify({ key, renew_at }))
  return key
}

/**
 * Names of all models that the account may use, also of those that do not chat.
 * @param {AbortSignal} [signal]
 * @returns {Promise<string[]>}
 */
export async function modelsOf(signal) {
  const answer = await withKey('/v1/models', signal ? { signal } : {})
  const { data } = /** @type {import('./shapes.js').List<{ id: string }>} */ (await answer.json())
  return data.map(({ id }) => id)
}
