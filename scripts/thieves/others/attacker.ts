// The attackers' process. Behind everybody else for the processor: what is measured is what the gateway does about them,
// not what they take of a machine that they would not share.

import { setPriority } from 'node:os'
import { assault } from './attacks.ts'
import { obey } from './orders.ts'

setPriority(process.pid, 10)
obey('', assault)
