import t from 'tap'
import { protect } from '../../../src/plugins/account/headers.ts'

t.test('no inline code, no other host, no frame, no guessing', async (t) => {
  const replyHeaders: Record<string, string> = {}
  protect({ replyHeaders })
  const policy = replyHeaders['Content-Security-Policy'] ?? ''
  t.notMatch(policy, /unsafe|\*|https?:/)
  t.match(policy, /default-src 'none'/)
  t.match(policy, /frame-ancestors 'none'/)
  t.equal(replyHeaders['X-Content-Type-Options'], 'nosniff')
})
