// tollgate portal: prints an address with which a customer gets into the account page, once.

import { path } from './admin.ts'
import { tell, wordAt } from './command.ts'
import type { Command } from './command.ts'
import { formatTime } from './table.ts'

export const portal: Command = {
  name: 'portal',
  words: ['ACCOUNT'],
  summary: 'print a link to the account page, which lets in once within 15 minutes',
  options: {
    'return-url': { value: 'URL', help: 'where the page leads back to; its origin is configured' },
  },
  async run(call) {
    const admin = await call.admin()
    const target = path`accounts/${wordAt(call, 0)}/portal`
    const body = { return_url: call.text('return-url') }
    const made = await admin.post<{ url: string; expires_at: number }>(target, body)
    // Only the address goes to stdout, so that a shell can take it.
    if (!call.isJson)
      call.io.stderr.write(`It lets in once, until ${formatTime(made.expires_at)}.\n`)
    return tell(call, made, `${made.url}\n`)
  },
}
