// What of OpenAI's API is passed through, in one table: where it goes, whether it generates, which of its fields must
// be there, and which hold prompts. What models may list under `endpoints`, the parameters of each, its routes and their
// documentation are made from it. A row with `generates` needs more: chat/frames.ts has to know its stream.

interface AnyEndpointRow {
  /** What a model lists under `endpoints`. */
  readonly endpoint: string
  /** What it does, in a few words, for the documentation. */
  readonly title: string
  /** Appended to the target's URL. */
  readonly path: string
  /** Public paths of POST. */
  readonly routes: readonly string[]
  /** Generates text, which has to be bounded and paid for, and streams it when asked to. */
  readonly generates: boolean
  /** Top-level field that must be there. */
  readonly required: string
  /** Top-level fields that may hold media. */
  readonly media: readonly string[]
}

const rows = [
  {
    endpoint: 'chat',
    title: 'Chat, without a session',
    path: '/chat/completions',
    routes: ['/v1/chat', '/v1/chat/completions'],
    generates: true,
    required: 'messages',
    media: ['messages'],
  },
  {
    endpoint: 'completions',
    title: 'Complete a text',
    path: '/completions',
    routes: ['/v1/completions'],
    generates: true,
    required: 'prompt',
    media: [],
  },
  {
    endpoint: 'embeddings',
    title: 'Make embeddings',
    path: '/embeddings',
    routes: ['/v1/embeddings'],
    generates: false,
    required: 'input',
    media: ['input'],
  },
  {
    endpoint: 'rerank',
    title: 'Rank documents',
    path: '/rerank',
    routes: ['/v1/rerank'],
    generates: false,
    required: 'documents',
    media: ['query', 'documents'],
  },
  {
    endpoint: 'moderations',
    title: 'Classify texts',
    path: '/moderations',
    routes: ['/v1/moderations'],
    generates: false,
    required: 'input',
    media: ['input'],
  },
] as const satisfies readonly AnyEndpointRow[]

export type Endpoint = (typeof rows)[number]['endpoint']

export interface EndpointRow extends AnyEndpointRow {
  readonly endpoint: Endpoint
}

export const endpoints: readonly EndpointRow[] = rows

export const chatRow: EndpointRow = rows[0]

export const endpointNames: readonly Endpoint[] = rows.map(({ endpoint }) => endpoint)

/** The fields of a body that are the endpoint's own, in the order in which they are documented. */
export function fieldsOf({ required, media }: EndpointRow): readonly string[] {
  return [...new Set([...media, required])]
}
