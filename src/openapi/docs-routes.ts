// The routes of the description itself, for docs/api.md and the OpenAPI document.

import { json } from './operation.ts'
import type { Operations, GoodAnswer } from './operation.ts'

const unchanged: GoodAnswer = {
  says: 'by `If-None-Match`, the client has it already.',
  headers: ['ETag'],
}
const guarded = [
  'Content-Security-Policy',
  'X-Content-Type-Options',
  'Cross-Origin-Resource-Policy',
]

export const docsRoutes: Operations = {
  'GET /openapi.json': {
    id: 'getOpenapi',
    title: 'This document',
    access: 'anybody',
    headers: ['If-None-Match'],
    text: "The routes of this port as an OpenAPI 3.1 document. It leaves out routes of plugins that are switched off, and of plugins that are not the gateway's own. It names no models, plans or accounts.",
    replies: {
      200: { says: 'the document.', content: json({ type: 'object' }), headers: ['ETag'] },
      304: unchanged,
    },
  },
  'GET /docs': {
    id: 'getDocs',
    title: 'This document, as a page',
    access: 'anybody',
    headers: ['If-None-Match'],
    text: "A page that shows `/openapi.json`, and can try its routes with a key that you enter. The key stays in the page's memory.",
    replies: {
      200: {
        says: 'HTML.',
        content: { 'text/html; charset=utf-8': { type: 'string' } },
        headers: ['ETag', ...guarded],
      },
      304: unchanged,
    },
  },
  'GET /docs/:file': {
    id: 'getDocsFile',
    title: 'A file of that page',
    access: 'anybody',
    headers: ['If-None-Match'],
    params: { file: 'The name of a script or style that the page names.' },
    replies: {
      200: {
        says: 'a script or a style of the page.',
        content: { '*/*': {} },
        headers: ['ETag', ...guarded],
      },
      304: unchanged,
    },
  },
}
