// Checks that need more than one key: clashes of ids, ports and headers, references to models that do not exist. Works
// on the values as they are in the file, so that it finds faults even when another part of the file is wrong. It also
// finds warnings: valid settings that the writer perhaps did not intend. The gateway starts with them; `tollgate check`
// and `doctor` print them.

import { drivers } from '../store/drivers.ts'
import type { Config, Model, Plan } from './config.ts'
import { endpoints } from './endpoints.ts'
import type { SchemaFinding } from './explain.ts'
import { defaultAdmin, defaultPort, parseHostPort } from './host-port.ts'
import { defaultContextWindow } from './model-keys.ts'
import { didYouMean, formatPath, type Path } from './problem.ts'
import { defaultSizes } from './keys.ts'
import { bytes, duration } from './schema.ts'
import { workerCount } from './workers.ts'

export type Block = Readonly<Record<string, unknown>>

/** `running` is how many workers there are until the next restart. */
export function crossCheck(file: unknown, running = 1): readonly SchemaFinding[] {
  const { models, plans, limits, store, workers, redis } = block(file)
  const names = namesOf(models)
  return [
    ...checkPorts(block(file)),
    ...names.clashes,
    ...Object.entries(block(models)).flatMap(([id, model]) => [
      ...checkModel(model, ['models', id]),
      ...checkFlush(block(model), ['models', id], block(limits)),
    ]),
    ...Object.entries(block(plans)).flatMap(([name, plan]) =>
      checkPlan(plan, ['plans', name], [...names.taken.keys()]),
    ),
    ...checkLimits(block(limits), Math.max(workerCount(workers), running)),
    ...checkStore(store),
    ...checkRedis(redis),
  ]
}

function checkPorts({ listen, admin }: Block): readonly SchemaFinding[] {
  const open = portOf(listen, defaultPort)
  const own = portOf(block(admin).listen, defaultAdmin.port)
  if (typeof own !== 'number' || own === 0 || open !== own) return []
  const message = `the public and the admin listener both have port ${own}; give one of them another`
  return [fault(block(admin).listen === undefined ? ['listen'] : ['admin', 'listen'], message)]
}

function portOf(listen: unknown, preset: number): unknown {
  if (typeof listen === 'string') return parseHostPort(listen)?.port
  return typeof listen === 'number' ? listen : (block(listen).port ?? preset)
}

/** Every id and alias, with the path that took it first. */
function namesOf(models: unknown): {
  readonly taken: ReadonlyMap<string, Path>
  readonly clashes: readonly SchemaFinding[]
} {
  const taken = new Map<string, Path>(Object.keys(block(models)).map((id) => [id, ['models', id]]))
  const clashes: SchemaFinding[] = []
  for (const [id, model] of Object.entries(block(models))) {
    for (const [i, alias] of list(block(model).aliases).entries()) {
      const path = ['models', id, 'aliases', i]
      const owner = typeof alias === 'string' ? taken.get(alias) : undefined
      if (owner) clashes.push(fault(path, `is taken by ${formatPath(owner)}; choose another`))
      else if (typeof alias === 'string') taken.set(alias, path)
    }
  }
  return { taken, clashes }
}

function checkModel(model: unknown, path: Path): readonly SchemaFinding[] {
  const {
    targets,
    context_window: window = defaultContextWindow,
    max_output_tokens: output,
  } = block(model)
  const tooMuch = typeof window === 'number' && typeof output === 'number' && output > window
  const message = `${output} is more than context_window, ${window}; lower it or raise context_window`
  return [
    ...(String(path.at(-1)).includes('${') ? [keyFault(path, literalKey)] : []),
    ...(tooMuch ? [fault([...path, 'max_output_tokens'], message)] : []),
    ...list(targets).flatMap((target, i) => checkTarget(target, [...path, 'targets', i])),
  ]
}

/** While events wait for `flush`, the gateway reads nothing, and the backend seems silent: `idle` must be longer. */
function checkFlush(model: Block, path: Path, limits: Block): readonly SchemaFinding[] {
  const ms = (text: unknown) => duration({ min: 0 }).safeParse(text).data ?? 0
  const flushMs = ms(model.flush ?? limits.flush ?? '0ms')
  const { idle } = block(model.timeouts)
  if (idle === undefined || ms(idle) > flushMs) return []
  return [fault([...path, 'timeouts', 'idle'], `must be longer than flush, ${flushMs}ms`)]
}

const literalKey = 'is not replaced: ${…} works in values only; write the name itself'
/** What is added to a target's URL. */
const operations = [...endpoints.map(({ path }) => path), '/models']
const operation = new RegExp(`(${operations.join('|')})/?$`)

function checkTarget(target: unknown, path: Path): readonly SchemaFinding[] {
  if (!isBlock(target)) return []
  const { url, demo, key, key_header: keyHeader } = target
  const found: SchemaFinding[] = []
  if (url === undefined && demo === undefined) {
    const message = "is missing; write the backend's URL, or demo: true"
    found.push({ ...fault([...path, 'url'], message), or: ['demo'] })
  }
  for (const name of demo === undefined ? [] : ['url', 'key', 'ca', 'health_check']) {
    const message = `the demo model takes no ${name}; remove it, or demo`
    if (target[name] !== undefined) found.push(fault([...path, name], message))
  }
  const tail = typeof url === 'string' ? operation.exec(url.split('?')[0] ?? '')?.[0] : undefined
  if (tail !== undefined) {
    const message = `ends in ${tail}, which is added to it; write the part before that`
    found.push(fault([...path, 'url'], message))
  }
  if (keyHeader !== undefined && key === undefined) {
    found.push(fault([...path, 'key'], 'is missing; add it or remove key_header'))
  }
  const owned = key === undefined ? undefined : String(keyHeader ?? 'authorization').toLowerCase()
  return [...found, ...checkHeaders(target.headers, [...path, 'headers'], owned)]
}

function checkHeaders(
  headers: unknown,
  path: Path,
  owned: string | undefined,
): readonly SchemaFinding[] {
  const seen = new Set<string>()
  return Object.keys(block(headers)).flatMap((name) => {
    const plain = name.toLowerCase()
    if (plain === owned)
      return [keyFault([...path, name], 'key already sets this header; remove one of the two')]
    if (seen.has(plain)) return [keyFault([...path, name], 'is there twice; remove one')]
    seen.add(plain)
    return []
  })
}

function checkPlan(plan: unknown, path: Path, names: readonly string[]): readonly SchemaFinding[] {
  return list(block(plan).models).flatMap((name, i) => {
    if (typeof name !== 'string' || name === '*' || names.includes(name)) return []
    const help = didYouMean(name, names) || `; write "*" or one of ${names.join(', ')}`
    return [fault([...path, 'models', i], `there is no such model${help}`)]
  })
}

/** Each worker has its part of `bodies`. If the file does not set `bodies`, each has as much as one process alone. */
function checkLimits(limits: Block, workers: number): readonly SchemaFinding[] {
  const size = (key: keyof typeof defaultSizes) =>
    bytes().safeParse(limits[key] ?? defaultSizes[key]).data
  const all = (size('bodies') ?? Infinity) / (limits.bodies === undefined ? 1 : workers)
  // A body counts twice (its bytes and its parsed texts), and one account alone may have half of the memory.
  const tooLarge = (['json_v1', 'json_message', 'json_api'] as const).filter(
    (key) => 4 * (size(key) ?? 0) > all,
  )
  const each = workers > 1 ? ` for each of ${workers} workers` : ''
  return tooLarge.map((key) =>
    limits[key] === undefined
      ? fault(
          ['limits', 'bodies'],
          `is less than four times ${key}, ${defaultSizes[key]}, the largest single body${each && `,${each}`}; raise bodies or lower ${key}`,
        )
      : fault(
          ['limits', key],
          `is more than a quarter of bodies, the memory for all bodies together${workers > 1 ? `, of which each of ${workers} workers has its part` : ''}; lower it or raise bodies`,
        ),
  )
}

const stores = Object.keys(drivers)

/** The store must have exactly one block. */
function checkStore(store: unknown): readonly SchemaFinding[] {
  if (!isBlock(store)) return []
  const [one, other] = stores.filter((name) => store[name] !== undefined)
  if (other !== undefined) return [fault(['store'], `is both ${one} and ${other}; remove one`)]
  if (one !== undefined) return []
  const [first = '', ...or] = stores
  const message = `is missing; write it, or ${or.join(' or ')}`
  return [{ ...fault(['store', first], message), or }]
}

const redisPlaces = ['url', 'cluster', 'sentinels'] as const
const ofSentinels = ['name', 'db', 'sentinel_username', 'sentinel_password'] as const

function checkRedis(redis: unknown): readonly SchemaFinding[] {
  if (!isBlock(redis)) return []
  const [one, other] = redisPlaces.filter((key) => redis[key] !== undefined)
  if (one === undefined) {
    return [
      {
        ...fault(['redis', 'url'], 'is missing; write it, or cluster or sentinels'),
        or: ['cluster', 'sentinels'],
      },
    ]
  }
  if (other !== undefined) return [fault(['redis'], `has both ${one} and ${other}; remove one`)]
  if (one !== 'sentinels') {
    return ofSentinels
      .filter((key) => redis[key] !== undefined)
      .map((key) =>
        keyFault(
          ['redis', key],
          `is only for sentinels${key === 'db' ? '; the URL has the database' : ''}; remove it`,
        ),
      )
  }
  if (redis.name !== undefined) return []
  return [
    fault(['redis', 'name'], 'is missing; write the name that the Sentinels have for the primary'),
  ]
}

function fault(path: Path, message: string): SchemaFinding {
  return { path, message, atKey: false }
}

function keyFault(path: Path, message: string): SchemaFinding {
  return { path, message, atKey: true }
}

export function isBlock(value: unknown): value is Block {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function block(value: unknown): Block {
  return isBlock(value) ? value : {}
}

function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

export interface Warning {
  readonly path: Path
  readonly message: string
}

export function warningsOf({
  models,
  plans,
  plugins,
  workers,
}: Pick<Config, 'models' | 'plans' | 'plugins' | 'workers'>): readonly Warning[] {
  return [
    ...[...models.values()].flatMap((model) => ofModel(model, workers)),
    ...[...plans].flatMap(([name, plan]) => ofPlan(name, plan, [...models.values()])),
    ...ofMetering(plugins.get('metering')),
  ]
}

/** Each worker may have at least one request under way, so a smaller limit cannot hold. */
function ofModel({ id, maxConcurrency, targets }: Model, workers: number): readonly Warning[] {
  const limits = [
    { path: ['models', id, 'max_concurrency'], most: maxConcurrency },
    ...targets.map((target, i) => ({
      path: ['models', id, 'targets', i, 'max_concurrency'],
      most: target.maxConcurrency,
    })),
  ]
  return limits
    .filter(({ most = Infinity }) => most < workers)
    .map(({ path, most }) => ({
      path,
      message: `${most} is less than workers: each of the ${workers} workers may have one request under way; lower workers`,
    }))
}

function ofMetering(metering: unknown): readonly Warning[] {
  if (block(metering).enforce !== false) return []
  const message = `shadow mode: limits and balances refuse nobody, and what an account cannot pay is waived`
  return [{ path: ['plugins', 'metering', 'enforce'], message }]
}

/** If a client does not bound its output, `max_output_tokens` of the model does, and all of it counts before it is generated. */
function ofPlan(name: string, plan: Plan, models: readonly Model[]): readonly Warning[] {
  const { tokensPerMinute: limit } = plan
  const larger = models
    .filter(({ id }) => plan.models.includes('*') || plan.models.includes(id))
    .filter(({ endpoints }) => endpoints.includes('chat') || endpoints.includes('completions'))
    .filter(({ maxOutputTokens }) => limit <= maxOutputTokens)
  if (larger.length === 0) return []
  const named = larger.map(({ id, maxOutputTokens }) => `${id} (${maxOutputTokens})`).join(', ')
  const message = `${limit} is not more than max_output_tokens of ${named}: a request without max_tokens gets a shorter answer and takes a minute's tokens alone; raise the one or lower the other`
  return [{ path: ['plans', name, 'tokens_per_minute'], message }]
}
