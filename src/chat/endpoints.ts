// What of OpenAI's API is passed through, in one table: where it goes, whether it streams, which fields bound its
// output, and which of its fields hold prompts.

import type { Endpoint } from '../config/config.ts'

export interface EndpointRow {
  readonly endpoint: Endpoint
  /** Appended to the target's URL. */
  readonly path: string
  /** Public paths of POST. */
  readonly routes: readonly string[]
  readonly streams: boolean
  /** Generates text that has to be bounded and paid for. */
  readonly generates: boolean
  /** Top-level field that must be there. */
  readonly required: string
  /** Top-level fields that may hold media. */
  readonly media: readonly string[]
}

export const chatRow: EndpointRow = {
  endpoint: 'chat',
  path: '/chat/completions',
  routes: ['/v1/chat', '/v1/chat/completions'],
  streams: true,
  generates: true,
  required: 'messages',
  media: ['messages'],
}

export const endpoints: readonly EndpointRow[] = [
  chatRow,
  {
    endpoint: 'completions',
    path: '/completions',
    routes: ['/v1/completions'],
    streams: true,
    generates: true,
    required: 'prompt',
    media: [],
  },
  {
    endpoint: 'embeddings',
    path: '/embeddings',
    routes: ['/v1/embeddings'],
    streams: false,
    generates: false,
    required: 'input',
    media: ['input'],
  },
  {
    endpoint: 'rerank',
    path: '/rerank',
    routes: ['/v1/rerank'],
    streams: false,
    generates: false,
    required: 'documents',
    media: ['query', 'documents'],
  },
  {
    endpoint: 'moderations',
    path: '/moderations',
    routes: ['/v1/moderations'],
    streams: false,
    generates: false,
    required: 'input',
    media: ['input'],
  },
]
