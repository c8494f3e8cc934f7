// The part of `tollgate doctor` about the models' backends: asks every target of every model for its list of models,
// for one token, and which parameters it takes, for a token each. Backends may charge for this; Tollgate does not.

import type { Config } from '../../config/config.ts'
import { ok } from './examination.ts'
import type { Examination } from './examination.ts'
import { listModels } from './list-models.ts'
import { askOneToken } from './one-token.ts'
import type { ModelTarget } from './one-token.ts'
import { askWhatIsTaken } from './taken.ts'

export async function examineTargets(
  { models }: Pick<Config, 'models'>,
  examination: Examination,
): Promise<void> {
  for (const model of models.values()) {
    for (const target of model.targets) await examineTarget({ model, target }, examination)
  }
}

async function examineTarget(route: ModelTarget, examination: Examination): Promise<void> {
  const { model, target } = route
  const name = `model ${model.id}, target ${target.name}`
  if (target.url === 'demo') {
    await examination.check(name, async () => ok('the built-in demo model'))
    return
  }
  await examination.check(`${name}, models`, (signal) => listModels(route, signal))
  const chat = await examination.check(`${name}, chat`, (signal) => askOneToken(route, signal))
  if (chat === 'fail' || !model.endpoints.includes('chat')) return
  const { limitMs } = examination
  await examination.check(`${name}, parameters`, (signal) =>
    askWhatIsTaken({ ...route, signal, limitMs }),
  )
}
