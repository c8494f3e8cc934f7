// Warnings: settings of a configuration without problems that its writer perhaps did not intend. The gateway starts
// with them; `tollgate check` and `doctor` print them.

import type { Config, Model, Plan } from './config.ts'
import type { Path } from './problem.ts'

export interface Warning {
  readonly path: Path
  readonly message: string
}

export function warningsOf({
  models,
  plans,
}: Pick<Config, 'models' | 'plans'>): readonly Warning[] {
  return [...plans].flatMap(([name, plan]) => ofPlan(name, plan, [...models.values()]))
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
