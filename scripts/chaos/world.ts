// What chaos plays with: Redis, an S3 server, two backends that count the truth, and three gateways, the last of them
// with two workers. Each gateway has lines of its own to Redis and to S3, and all have the same lines to the backends.

import { startS3 } from '../../test/fixtures/s3-server.ts'
import type { S3Server } from '../../test/fixtures/s3-server.ts'
import type { Teardown } from '../../test/fixtures/teardown.ts'
import { startHonestBackend } from '../thieves/backend.ts'
import type { Truths } from '../thieves/truth.ts'
import { startLine } from './line.ts'
import type { Line } from './line.ts'
import { Place } from './place.ts'
import { Risks } from './risks.ts'
import { startState } from './state.ts'
import type { State, StateKind } from './state.ts'

export interface World {
  readonly places: readonly Place[]
  /** One of them, which is asked about accounts. */
  readonly witness: Place
  readonly state: State
  readonly risks: Risks
  readonly s3: S3Server
  /** Each is a target; behind all of them is the one who counts. */
  readonly toBackends: readonly Line[]
  readonly truths: Truths
}

const workers = [1, 1, 2]

export async function startWorld(t: Teardown, kind: StateKind): Promise<World> {
  const backend = await startHonestBackend(t)
  const there = { host: '127.0.0.1', port: Number(new URL(backend.url).port) }
  const toBackends = [await startLine(t, there), await startLine(t, there)]
  const risks = new Risks()
  const state = await startState(t, kind, risks)
  const s3 = await startS3(t)
  const parts = {
    t,
    risks,
    s3,
    redisYaml: state.yaml,
    redisPorts: state.ports,
    backendPorts: toBackends.map(({ port }) => port),
  }
  const places = await Promise.all(
    workers.map((count, i) => Place.make(`gateway ${i + 1}`, { ...parts, workers: count })),
  )
  const [witness] = places
  if (!witness) throw new Error('There is no gateway')
  return { places, witness, state, risks, s3, toBackends, truths: backend.truths }
}
