// The configuration over HTTP, without secrets: models with their targets and what this process knows of these, the
// whole effective configuration, and the reload, which takes up a changed one.

import type { Model, Target } from '../../config/config.ts'
import type { Change, Shown } from '../../config/diff.ts'
import { formatPath } from '../../config/problem.ts'
import type { Gateway, TargetReport } from '../../plugin.ts'
import { reportTargets } from '../../upkeep.ts'
import { listOf } from '../../http/page.ts'
import { showModel } from '../../ledger/price.ts'
import { json } from '../../exchange.ts'
import type { Route } from '../../exchange.ts'
import { route } from './route.ts'

export function overviewRoutes(gateway: Gateway): readonly Route[] {
  const { config, effective, marks } = gateway
  return [
    route('GET', 'targets', async () => {
      // A supervisor asks no targets; its workers do.
      const reports = (await gateway.workers?.targets()) ?? reportTargets(gateway)
      const shown = [...config.models.values()].map((model) => ({
        id: model.id,
        object: 'model',
        aliases: model.aliases,
        endpoints: model.endpoints,
        ...showModel(model),
        queue: reports.find((one) => one.model === model.id)?.queue ?? 0,
        targets: model.targets.map((target) => showTarget(model, target, reports)),
      }))
      return json(listOf(shown, false))
    }),
    route('GET', 'config', async () =>
      json({ object: 'config', file: config.file, config: effective, marks: shortened(marks) }),
    ),
    route('POST', 'reload', async () => {
      const changes = await gateway.reload('the admin API')
      return json({ object: 'reload', changes: changes.map(showChange) })
    }),
  ]
}

/** Enough to see that a secret has changed, too little to find out which it is. */
const markChars = 4

function shortened(marks: Shown['marks']): Shown['marks'] {
  const entries = Object.entries(marks)
  return Object.fromEntries(entries.map(([path, mark]) => [path, mark.slice(0, markChars)]))
}

function showChange({ path, from, to, needsRestart }: Change) {
  return { path: formatPath(path), from, to, needs_restart: needsRestart }
}

function showTarget(
  { id }: Model,
  { name, url, model, priority, weight }: Target,
  reports: readonly TargetReport[],
) {
  const configured = { name, url: withoutQuery(url), model, priority, weight }
  const known = reports.find((one) => one.model === id && one.name === name) ?? unknown
  const { state, since, open, failures } = known
  return { object: 'target', ...configured, state, since, open, failures }
}

/** For a target of which no worker has told: no worker answers, or the target came with a reload. */
const unknown = { state: 'up', since: 0, open: 0, failures: 0 }

/** Some backends take their key in the query. */
function withoutQuery(text: string): string {
  const url = URL.parse(text)
  return url && url.host !== '' ? `${url.protocol}//${url.host}${url.pathname}` : text
}
