// What every event stream of the gateway has in common (docs/api.md#streams). chat/ and sessions/ write the events.

import { PatientTimer } from '../sharing/patience.ts'
import type { Headers } from './headers.ts'

/** `no-transform` and X-Accel-Buffering keep proxies from compressing or collecting events. */
export const sseHeaders: Headers = {
  'Content-Type': 'text/event-stream; charset=utf-8',
  'Cache-Control': 'no-cache, no-transform',
  'X-Accel-Buffering': 'no',
}

/** One LF and no blank line: after an `id:` line, a comment with a blank line makes openai-python raise an error. */
export const heartbeat = ':\n'

/** Calls `beat` whenever a stream was silent for `ms`. Whoever writes anything else calls `refresh`, and `clear` at the end. */
export function beating(beat: () => void, ms: number): PatientTimer {
  const timer = new PatientTimer(() => {
    beat()
    timer.refresh()
  }, ms)
  return timer
}
