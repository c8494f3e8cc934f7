// The event reader on the parser that npm chooses for Node below 22.12.

import { registerHooks } from 'node:module'
import { testEvents } from './cases/events.ts'

registerHooks({
  resolve: (name, context, next) =>
    next(name === 'eventsource-parser' ? 'eventsource-parser-3' : name, context),
})
const { EventReader } = await import('../src/events.ts')
testEvents(EventReader)
