// The Python client, blocking and asynchronous: its packages in a virtual environment that is kept, its sources where they
// lie. What Python and its tools write goes to the cache.

import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { cacheFolder, ensurePython } from '../../../scripts/model-server/python.ts'
import type { Driver, Language } from '../language.ts'

const run = promisify(execFile)
const home = join(import.meta.dirname, '../../python')
const needed = ['httpx==0.28.1']

const env = {
  PYTHONPATH: join(home, 'src'),
  PYTHONPYCACHEPREFIX: join(cacheFolder(), 'python-bytecode'),
  PYTHONUTF8: '1',
}

async function missing(): Promise<readonly string[]> {
  const asked = ['-c', 'import sys; sys.exit(sys.version_info < (3, 9))']
  return run('python3', asked).then(
    () => [],
    () => ['Python 3.9 or later'],
  )
}

async function driver(kind: 'sync' | 'async'): Promise<Driver> {
  const command = await ensurePython(needed, cacheFolder())
  return { command, words: [join(home, 'conformance', 'driver.py'), kind], env }
}

export const python: Language = {
  name: 'python',
  missing,
  driver: () => driver('sync'),
  checks: {},
}

export const pythonAsync: Language = {
  name: 'python async',
  missing,
  driver: () => driver('async'),
  checks: {},
}
