#!/usr/bin/env node
// What `npm start` and `npm run tollgate` run: main.ts, where this Node can read it. An older one refuses its name before a
// line of it is read, so that this file is JavaScript that any Node reads, and says in one line what to do.

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
