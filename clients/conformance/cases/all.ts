// Every case, in the order of the table.

import type { Case } from '../case.ts'
import { cancels } from './cancels.ts'
import { echoed } from './echoed.ts'
import { errors } from './errors.ts'
import { files } from './files.ts'
import { hostile } from './hostile.ts'
import { requests } from './requests.ts'
import { resources } from './resources.ts'
import { resume } from './resume.ts'
import { retries } from './retries.ts'
import { streams } from './streams.ts'

export const cases: readonly Case[] = [
  ...requests,
  ...errors,
  ...retries,
  ...streams,
  ...resume,
  ...cancels,
  ...resources,
  ...files,
  ...hostile,
  ...echoed,
]
