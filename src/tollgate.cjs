#!/usr/bin/env node
// `npm start` and `npm run tollgate` run this file. It loads main.ts if this Node can read TypeScript. An older Node
// refuses a .ts file before it reads a line of it, so this file is JavaScript for any Node, and says what to do.

const [major] = process.versions.node.split('.')
if (Number(major) >= 24) {
  void import('./main.ts')
} else {
  console.error(
    `tollgate: this is Node ${process.versions.node}, and it takes 24 or later. ` +
      'Run `npm ci`, then `npm start` or `npm run -s tollgate -- COMMAND`: npm brings one along.',
  )
  process.exitCode = 1
}
