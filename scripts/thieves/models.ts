// The models that thieves use: how the backend behind each behaves, what it costs, and the gateway.yaml that offers
// them all.

/** When a backend reports its usage. `asked`: in every chunk, if `continuous_usage_stats` asks for it. */
type UsageReport = 'end' | 'each' | 'asked' | 'never'

/** Where an answer has the generated text. */
type Shape = 'content' | 'tool' | 'custom' | 'audio' | 'ids' | 'unknown'

export interface Mode {
  readonly usage: UsageReport
  readonly shape?: Shape
  /** Tokens that are generated before the first content and never sent: nearly all of the bound, but at most this many. */
  readonly hiddenTokens?: number
  readonly maxOutputTokens?: number
  /** The backend generates this many tokens, even when the bound is lower. */
  readonly boundless?: number
  /** `silent`: sends nothing until its client has left. `quick`: sends all at once. */
  readonly pace?: 'silent' | 'quick'
  /** The backend reports this many prompt tokens more than it read. */
  readonly liesTokens?: number
  /** The backend ignores the case of keys, and the last one wins, as in Go's encoding/json. */
  readonly goKeys?: boolean
  /** An answer that is not streamed is padded to this many bytes. */
  readonly answerBytes?: number
  readonly endpoints?: readonly string[]
  /** Balance tokens for a model token; by default 1 and 1. */
  readonly price?: { readonly input: number; readonly output: number }
  /** More keys of the model in gateway.yaml, and of its target. */
  readonly keys?: Readonly<Record<string, string>>
  readonly targetKeys?: Readonly<Record<string, string>>
}

export const maxOutputTokens = 2000
export const answerBytes = 2 * 1024 * 1024

/** Tokens that are generated and not sent. */
const thoughts = { hiddenTokens: 12_000, maxOutputTokens: 20_000 }

const modes = {
  end: { usage: 'end' },
  each: { usage: 'each', targetKeys: { continuous_usage_stats: 'true' } },
  asked: { usage: 'asked', targetKeys: { continuous_usage_stats: 'true' } },
  never: { usage: 'never' },
  hidden: { usage: 'end', ...thoughts, keys: { hidden_reasoning: 'true' } },
  'hidden-asked': {
    usage: 'asked',
    ...thoughts,
    targetKeys: { continuous_usage_stats: 'true' },
  },
  finish: { usage: 'end', keys: { on_leave: 'finish' } },
  tools: { usage: 'end', shape: 'tool' },
  custom: { usage: 'end', shape: 'custom' },
  audio: { usage: 'end', shape: 'audio' },
  ids: { usage: 'end', shape: 'ids' },
  unknown: { usage: 'end', shape: 'unknown' },
  go: { usage: 'end', goKeys: true },
  boundless: { usage: 'end', boundless: 6000 },
  'free-output': { usage: 'never', boundless: 6000, price: { input: 1, output: 0 } },
  'cheap-output': { usage: 'end', boundless: 6000, price: { input: 1, output: 0.000001 } },
  huge: { usage: 'end', answerBytes: 2 * answerBytes },
  completions: { usage: 'end', endpoints: ['completions'] },
  embeddings: { usage: 'end', endpoints: ['embeddings'] },
  'embeddings-never': { usage: 'never', endpoints: ['embeddings'] },
  rerank: { usage: 'end', endpoints: ['rerank'] },
  'rerank-never': { usage: 'never', endpoints: ['rerank'] },
  liar: { usage: 'end', liesTokens: 10_000_000 },
  silent: { usage: 'end', pace: 'silent' },
  quick: { usage: 'end', pace: 'quick' },
  // No thief uses this model: a free model must still work for an account that owes.
  free: { usage: 'end', price: { input: 0, output: 0 } },
} as const satisfies Readonly<Record<string, Mode>>

export type ModelName = keyof typeof modes

const modelNames = Object.keys(modes) as readonly ModelName[]

export const modeOf = (name: ModelName): Mode => modes[name]

/** Whether the gateway reads an answer to its end when its client has left. */
export const readsOn = ({ keys }: Mode): boolean =>
  keys?.['on_leave'] === 'finish' || keys?.['hidden_reasoning'] === 'true'

export function isModelName(name: string): name is ModelName {
  return name in modes
}

export const priceOf = (name: ModelName) => modeOf(name).price ?? { input: 1, output: 1 }

export function modelsYaml(backendUrl: string): string {
  return `models:\n${modelNames.map((name) => modelYaml(name, backendUrl)).join('')}`
}

function modelYaml(name: ModelName, backendUrl: string): string {
  const {
    endpoints = ['chat'],
    maxOutputTokens: most = maxOutputTokens,
    keys = {},
    targetKeys = {},
  } = modeOf(name)
  const { input, output } = priceOf(name)
  const target = { url: `'${backendUrl}'`, ...targetKeys }
  const model = {
    targets: `[${flow(target)}]`,
    endpoints: `[${endpoints.join(', ')}]`,
    accepts: '[text, image, audio, file]',
    price: flow({ input: String(input), output: output.toFixed(6) }),
    context_window: '20000000',
    max_output_tokens: String(most),
    ...keys,
  }
  return `  ${name}: ${flow(model)}\n`
}

function flow(fields: Readonly<Record<string, string>>): string {
  const members = Object.entries(fields).map(([key, value]) => `${key}: ${value}`)
  return `{ ${members.join(', ')} }`
}
