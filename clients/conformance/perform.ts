// One run of a case with one client: starts the server, drives the client, compares what was sent and seen.

import { setTimeout as pause } from 'node:timers/promises'
import { key } from './case.ts'
import type { Run, Seen } from './case.ts'
import type { DriverProcess } from './driver.ts'
import { differences } from './matches.ts'
import { startServer } from './server.ts'
import type { ScriptedServer } from './server.ts'

/** What a client does by itself must happen within this time. */
const eventuallyMs = 5000

/** Returns what was wrong. */
export async function perform(run: Run, driver: DriverProcess): Promise<readonly string[]> {
  const server = await startServer(run.answers ?? [])
  try {
    const saw = await driver.tell(filled({ line: lineOf(run), env: run.env }, server))
    const seen = { ...saw, sent: server.sent, server }
    return [...problemsOf(run, seen), ...(await lateProblems(run, seen)), ...server.failures]
  } catch (error) {
    return [String(error)]
  } finally {
    await server.close()
  }
}

function lineOf({ client, steps }: Run): object {
  return { client: client === null ? {} : { base_url: '{base}', api_key: key, ...client }, steps }
}

function filled<Words>(words: Words, { url, other, closed, silent }: ScriptedServer): Words {
  const origins: Readonly<Record<string, string>> = { base: url, other, closed, silent }
  const text = JSON.stringify(words).replaceAll(
    /\{(base|other|closed|silent)\}/g,
    (word, name: string) => origins[name] ?? word,
  )
  return JSON.parse(text) as Words
}

function problemsOf(run: Run, seen: Seen): readonly string[] {
  const problems = [
    ...(run.saw ? differences(seen.steps, run.saw, 'saw') : []),
    ...(run.sent ? differences(seen.sent, run.sent, 'sent') : []),
  ]
  if (seen.steps.length === 0) problems.push('no steps were answered')
  // Some clients write media types and header names in small letters.
  const shown = JSON.stringify(seen.shown).toLowerCase()
  if (shown.includes(key.toLowerCase())) problems.push('the key was shown')
  try {
    run.check?.(seen)
  } catch (error) {
    problems.push(error instanceof Error ? error.message : String(error))
  }
  return problems
}

async function lateProblems({ eventually }: Run, seen: Seen): Promise<readonly string[]> {
  if (!eventually) return []
  const deadline = Date.now() + eventuallyMs
  while (!eventually(seen)) {
    if (Date.now() > deadline) return [`did not come: ${eventually}`]
    await pause(10)
  }
  return []
}
