// Builds `dist`: npm runs this in a clone, and when another project installs the clone by its path. Such an install has
// neither the compiler nor the client's own packages, so this installs them.

import { execFileSync, execSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

// `import.meta.dirname` does not exist before Node 20.11.
const cwd = fileURLToPath(new URL('.', import.meta.url))
const compiler = 'node_modules/typescript/bin/tsc'

if (!existsSync(`${cwd}${compiler}`)) {
  // npm's settings from the surrounding install must not reach this one, such as `production` or `global`.
  const words = '--include=dev --global=false --ignore-scripts --no-audit --no-fund'
  execSync(`npm ci ${words}`, { cwd, stdio: 'inherit' })
}
execFileSync(process.execPath, [compiler, '-p', 'tsconfig.build.json'], { cwd, stdio: 'inherit' })
