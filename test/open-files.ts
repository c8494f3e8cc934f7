// How many descriptors are open, and how many may be. Without any left: test/journeys/few-files.ts.

import { execFileSync } from 'node:child_process'
import { open } from 'node:fs/promises'
import t from 'tap'
import { mostFiles, openFiles } from '../src/open-files.ts'
import { noFullDisk } from './fixtures/full-disk.ts'

t.test('what is opened is counted', { skip: process.platform !== 'linux' }, async (t) => {
  const before = openFiles() ?? NaN
  const file = await open(import.meta.filename)
  t.equal(openFiles(), before + 1)
  await file.close()
  t.equal(openFiles(), before)
})

t.test('the limit is the one of now', { skip: noFullDisk }, async (t) => {
  const limit = (soft: number) =>
    execFileSync('prlimit', ['--pid', `${process.pid}`, `--nofile=${soft}:`])
  const usual = mostFiles() ?? NaN
  t.teardown(() => limit(usual))
  limit(usual - 1)
  t.equal(mostFiles(), usual - 1)
})
