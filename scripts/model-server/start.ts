// A real model server: llama.cpp from its prebuilt wheel, with a model of 5 MB that is made here and answers in short
// sentences. For the tests and for trying the gateway. The first start takes about 15 s. It ends with this process.

import { spawn, execFile } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { ensureMade, fingerprint } from '../cache.ts'
import { ensurePython } from './python.ts'

export interface ModelServerOptions {
  /** Then the server serves /v1/embeddings and nothing else. */
  readonly embeddings?: boolean
  /** The key that the server demands; by default none. */
  readonly key?: string
  /** The context of each slot: prompt and output together. */
  readonly contextTokens?: number
  /** How many requests the server runs at the same time; by default 2. */
  readonly slots?: number
}

export interface ModelServer {
  /** Ends in /v1. The model's id is `tiny`. */
  readonly url: string
  stop(): Promise<void>
}

const here = import.meta.dirname

export async function startModelServer(options: ModelServerOptions = {}): Promise<ModelServer> {
  const { embeddings = false, key = null, contextTokens = 2048, slots = 2 } = options
  const wanted = await readFile(join(here, 'requirements.txt'), 'utf8')
  const python = await ensurePython(wanted.trim().split('\n'))
  const model = await ensureModel(python)
  const given = { model, context: contextTokens * slots, slots, embeddings, key }
  const child = spawn(python, [join(here, 'serve.py'), JSON.stringify(given)])
  const url = await firstLine(child)
  child.stdout.resume()
  return {
    url: `${url}/v1`,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = once(child, 'exit')
      child.kill('SIGKILL')
      await ended
    },
  }
}

async function ensureModel(python: string): Promise<string> {
  const script = join(here, 'make_model.py')
  const name = `model-${fingerprint([await readFile(script, 'utf8')])}`
  const file = 'tiny.gguf'
  const folder = await ensureMade(name, (fresh) =>
    promisify(execFile)(python, [script, join(fresh, file), String(largestContext)]),
  )
  return join(folder, file)
}

/** The context that the model file declares; each server uses only the size that it is asked for. */
const largestContext = 1 << 17

async function firstLine(child: ChildProcess): Promise<string> {
  let errors = ''
  child.stderr?.on('data', (chunk: Buffer) => (errors = (errors + chunk.toString()).slice(-4000)))
  if (!child.stdout) throw new Error('the model server was started without a pipe')
  for await (const line of createInterface(child.stdout)) {
    if (line.startsWith('{')) return (JSON.parse(line) as { url: string }).url
  }
  throw new Error(`the model server did not start:\n${errors}`)
}
