// tollgate reload: has a running gateway read its file again, and prints what has changed.

import { changeLines } from './check.ts'
import type { ShownChange } from './check.ts'
import { tell } from './command.ts'
import type { Command } from './command.ts'

export const reload: Command = {
  name: 'reload',
  summary: 'have the gateway read its configuration again; exit code 78 if it has problems',
  async run(call) {
    const admin = await call.admin()
    const { changes } = await admin.post<{ changes: readonly ShownChange[] }>('reload', {})
    return tell(call, { object: 'reload', changes }, changeLines(changes))
  },
}
