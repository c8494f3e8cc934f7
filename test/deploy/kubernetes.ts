// config/kubernetes/ is what Kubernetes takes, by kubernetes-validate and by the Prometheus Operator's own schema, and
// agrees with the gateway: its ports, its routes, its drain, its metric.

import { Ajv } from 'ajv'
import { readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { ensurePython } from '../../scripts/model-server/python.ts'
import { loadConfig } from '../../src/config/load.ts'
import { plugins } from '../../src/gateway.ts'
import { field } from '../../src/http/json/field.ts'
import { createMetrics } from '../../src/metrics.ts'
import { startGateway } from '../fixtures/gateway.ts'
import { runProcess } from '../fixtures/process.ts'
import { rawClient } from '../fixtures/raw-http.ts'
import { root } from '../fixtures/source.ts'
import type { Teardown } from '../fixtures/teardown.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

const folder = join(root, 'config/kubernetes')
const files = (await readdir(folder)).map((name) => join(folder, name))
const texts = await Promise.all(files.map((file) => readFile(file, 'utf8')))
const objects = texts.flatMap((text) =>
  parseAllDocuments(text).map((document): unknown => document.toJS()),
)

/** What is at `spec.template`, or undefined. */
function at(value: unknown, path: string): unknown {
  return path.split('.').reduce(field, value)
}

function only(kind: string, name = 'tollgate'): object {
  const found = objects.filter(
    (one) => at(one, 'kind') === kind && at(one, 'metadata.name') === name,
  )
  const [one] = found
  if (found.length !== 1 || typeof one !== 'object' || one === null) {
    throw new Error(`${found.length} × ${kind} ${name}`)
  }
  return one
}

const pod = at(only('Deployment'), 'spec.template')
const container = at(pod, 'spec.containers.0')

async function validate(t: Teardown, paths: readonly string[]) {
  const python = await ensurePython(['kubernetes-validate==1.37.0'])
  const words = ['-m', 'kubernetes_validate', '--strict', '--kubernetes-version', '1.37.0']
  return runProcess(t, [python, ...words, ...paths])
}

t.test('every manifest is valid, without unknown keys', async (t) => {
  const { code, out, err } = await validate(t, files)
  t.equal(code, 0, out + err)
  const judged = (out + err).split('\n').filter((line) => /passed for resource/.test(line))
  t.equal(judged.length, objects.length - 1, 'all but the ServiceMonitor')

  const mistyped = join(await tempDir(t), 'mistyped.yaml')
  await writeFile(mistyped, texts.join('\n---\n').replace('maxUnavailable: 1', 'maxUnavailabel: 1'))
  t.match(await validate(t, [mistyped]), { code: 1 })
})

t.test('the ServiceMonitor is valid, without unknown keys', async (t) => {
  const text = await readFile(join(root, 'test/fixtures/servicemonitor.json'), 'utf8')
  const ajv = new Ajv({ strict: false, validateFormats: false })
  const isValid = ajv.compile(closed(JSON.parse(text)) as object)
  const monitor = only('ServiceMonitor')
  t.ok(isValid(monitor), ajv.errorsText(isValid.errors))
  t.notOk(isValid({ ...monitor, spec: { endpoints: [], selector: {}, endpoint: [] } }))
})

/** The schema with every object that lists its properties closed to others, as Kubernetes prunes them. */
function closed(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(closed)
  if (typeof schema !== 'object' || schema === null) return schema
  const copy = Object.fromEntries(Object.entries(schema).map(([name, one]) => [name, closed(one)]))
  const isListed = 'properties' in schema && 'type' in schema
  return isListed ? { additionalProperties: false, ...copy } : copy
}

t.test('the gateway takes its configuration, and has time to drain', async (t) => {
  const secrets = await tempDir(t)
  const yaml = String(field(at(only('ConfigMap'), 'data'), 'gateway.yaml'))
  for (const [, name = ''] of yaml.matchAll(/\/secrets\/([\w-]+)/g)) {
    await writeFile(join(secrets, name), 'secret')
  }
  const file = join(secrets, 'gateway.yaml')
  await writeFile(file, yaml.replaceAll('/secrets/', `${secrets}/`))
  const loaded = await loadConfig(file, plugins, { env: {} })
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems))
  const { listen, admin, drainMs } = loaded.config
  t.match(at(container, 'ports'), [
    { name: 'http', containerPort: listen.port },
    { name: 'admin', containerPort: admin.listen.port },
  ])
  t.equal(admin.listen.host, '0.0.0.0', 'probes come from outside')
  const seconds = Number(at(container, 'lifecycle.preStop.sleep.seconds'))
  const grace = Number(at(pod, 'spec.terminationGracePeriodSeconds'))
  t.ok(grace >= seconds + drainMs / 1000 + 30, `${grace} s for ${seconds} s and ${drainMs} ms`)
})

t.test('probes ask the routes of the admin listener', async (t) => {
  t.match(container, {
    readinessProbe: { httpGet: { path: '/readyz', port: 'admin' } },
    livenessProbe: { httpGet: { path: '/healthz', port: 'admin' } },
  })
  const { adminUrl } = await startGateway(t, { yaml: 'models: { demo: { targets: [demo] } }' })
  // A kubelet sends the pod's address as Host.
  for (const path of ['/readyz', '/healthz', '/metrics']) {
    const answer = await rawClient(t, Number(new URL(adminUrl).port))
    const { status } = await answer.ask(`GET ${path} HTTP/1.1\r\nHost: 10.1.2.3:9090\r\n\r\n`)
    t.equal(status, 200, path)
  }
})

t.test('every selector finds the pods, and the monitor finds the Service', async (t) => {
  const labels = at(pod, 'metadata.labels')
  t.same(at(only('Deployment'), 'spec.selector'), { matchLabels: labels })
  t.same(at(only('Service'), 'spec.selector'), labels)
  t.same(at(only('Service', 'tollgate-admin'), 'spec.selector'), labels)
  t.same(at(only('PodDisruptionBudget'), 'spec.selector'), { matchLabels: labels })
  t.same(at(only('NetworkPolicy'), 'spec.podSelector'), { matchLabels: labels })
  const monitored = Object(at(only('ServiceMonitor'), 'spec.selector.matchLabels'))
  t.match(at(only('Service', 'tollgate-admin'), 'metadata.labels'), monitored)
  t.notMatch(at(only('Service'), 'metadata.labels'), monitored, 'each pod is asked once')
  const jobLabel = String(at(only('ServiceMonitor'), 'spec.jobLabel'))
  const job = field(at(only('Service', 'tollgate-admin'), 'metadata.labels'), jobLabel)
  const rules = await readFile(join(root, 'config/prometheus/rules.yml'), 'utf8')
  const jobs = new Set([...rules.matchAll(/job="([^"]+)"/g)].map(([, name]) => name))
  t.same([...jobs], [job], 'the job that the rules ask for')
})

t.test('the autoscaler goes by a metric that there is', async (t) => {
  const name = at(only('HorizontalPodAutoscaler'), 'spec.metrics.0.pods.metric.name')
  t.equal(name, 'tollgate_streams_open')
  t.match(await createMetrics('test').text(), `# TYPE ${name} gauge`)
})
