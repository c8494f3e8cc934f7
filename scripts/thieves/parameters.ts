// What unusual parameters do at the backend: each costs more than the gateway thought, or reaches what belongs to the
// operator. Each is obeyed by some real server; this backend obeys all of them.

import type { Account } from './truth.ts'

type Json = Readonly<Record<string, unknown>>

export interface Effect {
  /** This many more tokens in the prompt. */
  readonly prompt?: number
  /** The operator's bill for all tokens of the request is multiplied by this. */
  readonly factor?: number
  /** The length that the parameter gives the answer, even above the bound. */
  readonly output?: (value: unknown) => number
}

const numbered = { output: (value: unknown) => (typeof value === 'number' ? value : 0) }
/** No tokens: the parameter reaches other customers' data, slots, files or hosts. */
const reaches: Effect = {}

export const effects: Readonly<Record<string, Effect>> = {
  chat_template: { prompt: 120_000 },
  web_search_options: { prompt: 25_000 },
  plugins: { prompt: 25_000 },
  prompt_logprobs: { factor: 2 },
  service_tier: { factor: 2 },
  models: { factor: 30 },
  route: { factor: 30 },
  provider: { factor: 30 },
  priority: reaches,
  kv_transfer_params: reaches,
  session_params: reaches,
  id_slot: reaches,
  lora_path: reaches,
  lora: reaches,
  api_base: reaches,
  base_url: reaches,
  fallbacks: reaches,
  extra_headers: reaches,
  max_new_tokens: numbered,
  max_output_tokens: numbered,
  n_predict: numbered,
  min_tokens: numbered,
  options: { output: (value) => numberIn(value, 'num_predict') },
  sampling_params: { output: (value) => numberIn(value, 'max_new_tokens') },
  use_beam_search: { factor: 8 },
  a_new_word_of_tomorrow: { factor: 2 },
}

/** The values of the parameters, as thieves send them. */
export const wishes: Readonly<Record<string, unknown>> = {
  chat_template: '{% for i in range(120000) %}x {% endfor %}',
  web_search_options: { search_context_size: 'high' },
  plugins: [{ id: 'web' }],
  prompt_logprobs: 20,
  service_tier: 'priority',
  models: ['dear/large'],
  route: 'fallback',
  provider: { order: ['dear'] },
  priority: -1000,
  kv_transfer_params: { do_remote_prefill: true },
  session_params: { id: 'others' },
  id_slot: 0,
  lora_path: '/adapters/others',
  lora: [{ id: 0, scale: 1 }],
  api_base: 'http://thief.example/v1',
  base_url: 'http://thief.example/v1',
  fallbacks: [{ model: 'dear/large' }],
  extra_headers: { authorization: 'x' },
  max_new_tokens: 6000,
  max_output_tokens: 6000,
  n_predict: 6000,
  min_tokens: 6000,
  options: { num_predict: 6000 },
  sampling_params: { max_new_tokens: 6000 },
  use_beam_search: true,
  a_new_word_of_tomorrow: 1,
}

/** Applies the body's parameters to the account. Returns how long they let the answer be, and which of them were there. */
export function obey(body: Json, account: Account): { output: number; names: readonly string[] } {
  const names = Object.keys(effects).filter((name) => isAsked(body[name]))
  let output = 0
  for (const name of names) {
    const effect = effects[name] ?? {}
    account.factor *= effect.factor ?? 1
    account.addPrompt(effect.prompt ?? 0)
    output = Math.max(output, effect.output?.(body[name]) ?? 0)
  }
  return { output, names }
}

/** Whether the value asks for anything: the usual tiers and values without effect are no theft. */
function isAsked(value: unknown): boolean {
  return value !== undefined && value !== null && value !== 'auto' && value !== 'default'
}

function numberIn(value: unknown, name: string): number {
  const found = typeof value === 'object' && value !== null ? (value as Json)[name] : 0
  return typeof found === 'number' ? found : 0
}
