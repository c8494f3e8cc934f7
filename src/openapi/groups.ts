// All operations of the public port, by the plugin that serves them. A plugin with a route of its own has a row here.

import { billingRoutes } from './billing-routes.ts'
import { chatRoutes, modelRoutes } from './chat-routes.ts'
import { docsRoutes } from './docs-routes.ts'
import { fileRoutes } from './file-routes.ts'
import type { Operations } from './operation.ts'
import { pageRoutes } from './page-routes.ts'
import { sessionRoutes } from './session-routes.ts'

export interface Group {
  /** The plugin's name. */
  readonly plugin: string
  readonly title: string
  /** A sentence. */
  readonly says: string
  readonly operations: Operations
  /** What `:id` is in the paths. */
  readonly id?: { readonly prefix: string; readonly says: string }
}

export const groups: readonly Group[] = [
  {
    plugin: 'models',
    title: 'Models',
    says: 'Which models a key may use.',
    operations: modelRoutes,
  },
  {
    plugin: 'chat',
    title: 'Chat',
    says: "OpenAI's API, without sessions: nothing is stored.",
    operations: chatRoutes,
  },
  {
    plugin: 'sessions',
    title: 'Sessions',
    says: 'Conversations that the gateway keeps, with answers that can be read from anywhere.',
    operations: sessionRoutes,
    id: { prefix: 'sess', says: "A session's id." },
  },
  {
    plugin: 'files',
    title: 'Files',
    says: 'Files of sessions.',
    operations: fileRoutes,
    id: { prefix: 'file', says: "A file's id." },
  },
  {
    plugin: 'billing',
    title: 'Billing',
    says: 'What is left, and where it went.',
    operations: billingRoutes,
  },
  {
    plugin: 'account',
    title: 'Account page',
    says: "The page under `/account`, and its own API. That takes the page's cookie in place of a key, and what changes something only from the page's own origin.",
    operations: pageRoutes,
    id: { prefix: 'key', says: "A key's id." },
  },
  {
    plugin: 'docs',
    title: 'Description',
    says: 'This document.',
    operations: docsRoutes,
  },
]
