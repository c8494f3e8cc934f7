import { availableParallelism } from 'node:os'
import t from 'tap'
import type { Test } from 'tap'
import { loadConfig } from '../../src/config/load.ts'
import { formatPath } from '../../src/config/problem.ts'
import { configOfWorker, workerCount } from '../../src/config/workers.ts'

t.test('a number is itself, auto is one for each core, anything else is one', async (t) => {
  t.equal(workerCount(3), 3)
  t.equal(workerCount('auto'), availableParallelism())
  t.equal(workerCount(undefined), 1)
  t.equal(workerCount('x'), 1)
})

const limited = (model = '', target = '') =>
  `models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1', ${target} }], ${model} } }\n`

const load = (t: Test, yaml: string) =>
  loadConfig(`${t.testdir({ 'gateway.yaml': yaml })}/gateway.yaml`, [], { env: {} })

t.test('each worker has room for the largest body', async (t) => {
  t.match(await load(t, `${limited()}workers: 3\n`), {
    config: { workers: 3, limits: { bodiesBytes: 3 * 128 * 2 ** 20 } },
  })
  t.match(await load(t, limited()), {
    config: { workers: 1, limits: { bodiesBytes: 128 * 2 ** 20 } },
  })
  t.match(await load(t, `${limited()}workers: 2\nlimits: { bodies: 128MiB }\n`), {
    problems: [{ path: ['limits', 'bodies'], message: /for each of 2 workers; raise bodies/ }],
  })
  t.match(await load(t, `${limited()}workers: 0\n`), { problems: [{ path: ['workers'] }] })
})

async function configOf(t: Test, yaml: string) {
  const loaded = await load(t, yaml)
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems))
  return loaded
}

t.test('the parts of all workers are together what the file says', async (t) => {
  const text = limited('max_concurrency: 8, queue: { length: 5 }', 'max_concurrency: 3')
  const { config } = await configOf(t, text)
  const partsOf = (count: number) =>
    Array.from({ length: count }, (_, i) => {
      const one = configOfWorker(config, { number: i + 1, count }).models.get('m')
      return [one?.maxConcurrency, one?.queue.length, one?.targets[0]?.maxConcurrency]
    })
  t.same(partsOf(1), [[8, 5, 3]])
  t.same(partsOf(3), [
    [3, 2, 1],
    [3, 2, 1],
    [2, 1, 1],
  ])
  t.same(partsOf(4)[3], [2, 1, 1], 'none is without')
})

t.test('where the file has no bound, or no line, the workers have none', async (t) => {
  const { config } = await configOf(t, limited('queue: { length: 0 }', 'weight: 2'))
  const one = configOfWorker(config, { number: 1, count: 2 }).models.get('m')
  t.match(one, { maxConcurrency: undefined, queue: { length: 0 } })
  t.match(one?.targets[0], { maxConcurrency: undefined, weight: 2 })
})

t.test('more workers than a target takes requests: a warning', async (t) => {
  const text = limited('max_concurrency: 3', 'max_concurrency: 2')
  const warned = async (yaml: string) =>
    (await configOf(t, yaml)).warnings.map(({ path }) => formatPath(path))
  t.same(await warned(text), [])
  t.same(await warned(`${text}workers: 3\n`), ['models.m.targets[0].max_concurrency'])
  t.same(await warned(`${text}workers: 4\n`), [
    'models.m.max_concurrency',
    'models.m.targets[0].max_concurrency',
  ])
})
