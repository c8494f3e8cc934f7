// The clients, in the order of the table.

import type { Language } from '../language.ts'
import { go } from './go.ts'
import { python, pythonAsync } from './python.ts'
import { rust } from './rust.ts'
import { typescript } from './typescript.ts'

export const languages: readonly Language[] = [typescript, python, pythonAsync, go, rust]
