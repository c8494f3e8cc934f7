// Builds `dist`: npm runs it in a clone, and where another project installs the clone by its path. Such an install brings
// neither the compiler nor the client's own packages, so that this does.

import { execFileSync, execSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// `import.meta.dirname` is not there before Node 20.11.
const cwd = fileURLToPath(new URL('.', import.meta.url))
const compiler = 'node_modules/typescript/bin/tsc'

if (!existsSync(`${cwd}${compiler}`)) {
  // What the install around it was told goes on to this one: for production, say, or for the whole machine.
  const words = '--include=dev --global=false --ignore-scripts --no-audit --no-fund'
  execSync(`npm ci ${words}`, { cwd, stdio: 'inherit' })
}
execFileSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], { cwd, stdio: 'inherit' })
