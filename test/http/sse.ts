import t from 'tap'
import { heartbeat, sseHeaders } from '../../src/http/sse.ts'

t.test('proxies are told to leave events alone; a heartbeat is no blank line', async (t) => {
  t.match(sseHeaders, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-cache, no-transform',
    'X-Accel-Buffering': 'no',
  })
  t.equal(heartbeat, ':\n')
})
