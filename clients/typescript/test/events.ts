// The event reader on the newest parser.

import { EventReader } from '../src/events.ts'
import { testEvents } from './cases/events.ts'

testEvents(EventReader)
