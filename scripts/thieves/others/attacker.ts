// The attackers' process. It has the lowest priority for the processor: the test measures what the gateway does about
// the attacks, not how much CPU the attackers take, since real attackers are on other machines.

import { setPriority } from 'node:os'
import { obey } from '../../worker.ts'
import { assault } from './attacks.ts'

setPriority(process.pid, 10)
obey('', assault)
