// How many workers a configuration asks for, and what one of them may ask of a target: the file says what a target takes
// of all of them together.

import { availableParallelism } from 'node:os'
import type { Config, Model } from './config.ts'

/**
 * The number of workers for the value in the file: `auto` is one for each core; anything else that is no number is one.
 */
export function workerCount(given: unknown): number {
  if (given === 'auto') return availableParallelism()
  return typeof given === 'number' ? given : 1
}

/** One of `count` workers; the first has number 1. */
export interface WorkerPlace {
  readonly number: number
  readonly count: number
}

/**
 * The configuration of one worker: its part of `max_concurrency` and `queue.length` of each model and target. Each worker
 * may ask a target at least once, so with more workers than `max_concurrency` a target gets as many requests as workers.
 */
export function configOfWorker(config: Config, place: WorkerPlace): Config {
  const models = [...config.models].map(([id, model]) => [id, modelOfWorker(model, place)] as const)
  return { ...config, workers: place.count, models: new Map(models) }
}

function modelOfWorker(model: Model, place: WorkerPlace): Model {
  const { targets, queue } = model
  return {
    ...withPart(model, place),
    targets: targets.map((target) => withPart(target, place)),
    queue: { ...queue, length: queue.length === 0 ? 0 : partOf(queue.length, place) },
  }
}

function withPart<T extends { readonly maxConcurrency?: number | undefined }>(
  given: T,
  place: WorkerPlace,
): T {
  const { maxConcurrency: all } = given
  return all === undefined ? given : { ...given, maxConcurrency: partOf(all, place) }
}

/** All parts add up to the whole, unless it is less than the number of workers: each worker gets at least 1. */
function partOf(whole: number, { number, count }: WorkerPlace): number {
  const isLarger = number <= whole % count
  return Math.max(1, Math.floor(whole / count) + (isLarger ? 1 : 0))
}
