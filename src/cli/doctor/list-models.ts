// GET /models of a target: does the target answer, does it accept the key, does it list the model? A backend can answer
// requests without a list, so a missing list, or one with other names, is only a warning.

import { getFrom } from '../../backend/get.ts'
import { field, parsed } from '../../http/json/field.ts'
import { ok, warn } from './examination.ts'
import type { CheckOutcome } from './examination.ts'
import type { ModelTarget } from './one-token.ts'
import { readBody, refusal } from './refusal.ts'

const mostShown = 5

export async function listModels(route: ModelTarget, signal: AbortSignal): Promise<CheckOutcome> {
  const { model, target } = route
  const { connectMs } = model.timeouts
  const url = new URL(target.url)
  url.pathname = `${url.pathname.replace(/\/$/, '')}/models`
  const answer = await getFrom(target, { url, connectMs, signal })
  const status = answer.statusCode ?? 0
  const body = await readBody(answer)
  if (status === 401 || status === 403) return refusal(status, body, target)
  // Not a failure: one backend was seen that answers 500 here, and still serves chats.
  if (status !== 200) return { ...refusal(status, body, target), verdict: 'warn' }
  const models = modelsIn(parsed(body.toString()))
  if (!models) return warn('the answer is no list of models')
  const found = models.find(({ id }) => isNamed(target.model, id))
  if (found) return judgeWindow(found, model.promptWindow)
  const ids = models.map(({ id }) => id)
  const some = [...ids.slice(0, mostShown), ...(ids.length > mostShown ? ['…'] : [])].join(', ')
  return warn(`${target.model} is not among the ${ids.length} that are listed: ${some}`)
}

interface Listed {
  readonly id: string
  /** In tokens; undefined when the backend does not tell. */
  readonly window: number | undefined
}

function modelsIn(list: unknown): readonly Listed[] | undefined {
  const data = field(list, 'data')
  if (!Array.isArray(data)) return undefined
  return data.flatMap((one: unknown) => {
    const id = field(one, 'id')
    return typeof id === 'string' ? [{ id, window: windowOf(one) }] : []
  })
}

/** The names are those of vLLM, OpenRouter and llama.cpp. */
function windowOf(model: unknown): number | undefined {
  const named = [
    field(model, 'max_model_len'),
    field(model, 'context_length'),
    field(field(model, 'meta'), 'n_ctx'),
  ]
  return named.find(
    (one): one is number => typeof one === 'number' && Number.isSafeInteger(one) && one > 0,
  )
}

/** Ollama lists `llama3` as `llama3:latest`. */
function isNamed(model: string, id: string): boolean {
  return id === model || id === `${model}:latest`
}

/** Prompt tokens that a backend reports above the window are not believed, and so not charged. */
function judgeWindow({ id, window = 0 }: Listed, promptWindow: number): CheckOutcome {
  if (window <= promptWindow) return ok(`${id} is listed`)
  return warn(
    `${id} has a context of ${window} there, and its context_window is ${promptWindow} here: prompt tokens above ${promptWindow} are not charged. Write context_window: ${window}`,
  )
}
