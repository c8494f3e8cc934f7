// The models that thieves meet: how the backend behind each behaves, what it costs, and the gateway.yaml that offers
// them all.

/** How a backend says what it used. `asked`: in every chunk, where `continuous_usage_stats` asks for it. */
type UsageReport = 'end' | 'each' | 'asked' | 'never'

/** Where what is generated stands in an answer. */
type Shape = 'content' | 'tool' | 'custom' | 'audio' | 'ids' | 'unknown'

export interface Mode {
  readonly usage: UsageReport
  readonly shape?: Shape
  /** Generated before the first content and never shown: nearly all of the bound, and no more than this. */
  readonly hiddenTokens?: number
  readonly maxOutputTokens?: number
  /** Generated whatever the bound says. */
  readonly boundless?: number
  /** Says nothing until its client has gone; or all at once. */
  readonly pace?: 'silent' | 'quick'
  /** Reports so many tokens of a prompt that had none of them. */
  readonly liesTokens?: number
  /** Keys of a body match whatever their case, the last one wins: Go's encoding/json. */
  readonly goKeys?: boolean
  /** An answer that is not streamed is padded to so many bytes. */
  readonly answerBytes?: number
  readonly endpoints?: readonly string[]
  /** Balance tokens a model token; 1 and 1 where not given. */
  readonly price?: { readonly input: number; readonly output: number }
  /** More keys of the model in gateway.yaml, and of its target. */
  readonly keys?: Readonly<Record<string, string>>
  readonly targetKeys?: Readonly<Record<string, string>>
}

export const maxOutputTokens = 2000
export const answerBytes = 2 * 1024 * 1024

const modes = {
  end: { usage: 'end' },
  each: { usage: 'each', targetKeys: { continuous_usage_stats: 'true' } },
  asked: { usage: 'asked', targetKeys: { continuous_usage_stats: 'true' } },
  never: { usage: 'never' },
  hidden: {
    usage: 'end',
    hiddenTokens: 12_000,
    maxOutputTokens: 20_000,
    keys: { hidden_reasoning: 'true' },
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
  // Takes no part in thefts: what costs nothing has to go on working for who owes.
  free: { usage: 'end', price: { input: 0, output: 0 } },
} as const satisfies Readonly<Record<string, Mode>>

export type ModelName = keyof typeof modes

const modelNames = Object.keys(modes) as readonly ModelName[]

export const modeOf = (name: ModelName): Mode => modes[name]

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
