// tollgate start: runs the gateway until it is told to stop. Imports the gateway only when the command runs.

import type { Command } from './command.ts'

const start: Command = {
  name: 'start',
  words: [],
  summary: 'run the gateway; also without any command',
  options: {},
  isLocal: true,
  async run({ io, text }) {
    const { start } = await import('../start.ts')
    return start(text('config') ?? 'gateway.yaml', io)
  },
}

export const startCommands: readonly Command[] = [start]
