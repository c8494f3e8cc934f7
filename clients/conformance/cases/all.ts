// Every case, in the order of the table.

import type { Case } from '../case.ts'
import { cancels } from './cancels.ts'
import { downloads } from './downloads.ts'
import { echoed } from './echoed.ts'
import { ends } from './ends.ts'
import { errors } from './errors.ts'
import { hostile } from './hostile.ts'
import { requests } from './requests.ts'
import { resources } from './resources.ts'
import { resume } from './resume.ts'
import { retries } from './retries.ts'
import { streams } from './streams.ts'
import { uploads } from './uploads.ts'

export const cases: readonly Case[] = [
  ...requests,
  ...errors,
  ...retries,
  ...streams,
  ...resume,
  ...ends,
  ...cancels,
  ...resources,
  ...uploads,
  ...downloads,
  ...hostile,
  ...echoed,
]
