// The strategies that are written down, each once; mixtures.ts makes more of their parts.

import type { Strategy } from '../strategy.ts'
import { addresses, parameters, usageOff } from './asked-for.ts'
import { generated } from './generated.ts'
import { honest } from './honest.ts'
import { lastWord } from './last-word.ts'

export const strategies: readonly Strategy[] = [
  ...honest,
  ...lastWord,
  ...usageOff,
  ...parameters,
  ...generated,
  ...addresses,
]
