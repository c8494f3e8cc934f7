// The routes of files, for docs/api.md and the OpenAPI document.

import { uploadBody } from './bodies.ts'
import { listOfObjects, oneOf, ref, text } from './fields.ts'
import { json } from './operation.ts'
import type { Operations, GoodAnswer } from './operation.ts'
import { pageQuery } from './queries.ts'

const file: GoodAnswer['content'] = json(ref('File'))
const bytes = { '*/*': { description: "The content; its type is the file's." } }
const missing = { file_not_found: '' } as const

const validators = ['ETag', 'Last-Modified', 'Accept-Ranges', 'Repr-Digest']
const described = [
  ...validators,
  'Content-Disposition',
  'X-Content-Type-Options',
  'Content-Security-Policy',
  'Cross-Origin-Resource-Policy',
]
const conditions = [
  'Range',
  'If-Range',
  'If-Match',
  'If-None-Match',
  'If-Modified-Since',
  'If-Unmodified-Since',
]

export const fileRoutes: Operations = {
  'POST /api/files/upload': {
    id: 'uploadFile',
    title: 'Upload a file',
    access: 'files',
    query: { session_id: text('In place of the field.') },
    body: uploadBody,
    replies: {
      201: {
        says: 'the [file](#file), and its path in `Location`. No `Idempotency-Key`.',
        content: file,
        headers: ['Location'],
      },
    },
    codes: {
      storage_quota_exceeded: '',
      session_not_found: '',
      file_too_large: '',
      unsupported_media_type: ' for types that `plugins.files.allow` does not list',
      checksum_mismatch: '',
      concurrency_limit_exceeded: '',
      storage_unavailable: '',
    },
  },
  'GET /api/files/:id': {
    id: 'downloadFile',
    title: 'Download a file',
    access: 'files',
    query: {
      disposition: {
        ...oneOf(
          'attachment inline',
          '`inline`: a browser shows the content if its type is safe; else it is an attachment.',
        ),
        preset: '`attachment`',
      },
    },
    headers: conditions,
    text: `The content. With \`?disposition=inline\` a browser shows png, jpeg, gif, webp, avif, mp3, mp4 and plain text; otherwise the
content is an \`attachment\`.`,
    replies: {
      200: { says: 'the whole file.', content: bytes, headers: described },
      206: {
        says: 'the one `Range` that was requested; a request for several ranges gets 200 and the whole file.',
        content: bytes,
        headers: [...described, 'Content-Range'],
      },
      302: {
        says: 'a URL of the store, if `plugins.files.redirect` is `presigned` and the file is larger than `redirect_above`.',
        headers: ['Location'],
      },
      304: {
        says: 'by `If-None-Match` or `If-Modified-Since`, the client has this content already.',
        headers: ['ETag', 'Last-Modified'],
      },
    },
    codes: {
      ...missing,
      file_expired: '',
      precondition_failed: '',
      range_not_satisfiable: '',
      concurrency_limit_exceeded: '',
      storage_unavailable: '',
    },
  },
  'GET /api/files/:id/metadata': {
    id: 'getFile',
    title: 'Show a file',
    access: 'files',
    replies: { 200: { says: 'the [file](#file).', content: file } },
    codes: { ...missing, file_expired: '' },
  },
  'GET /api/files': {
    id: 'listFiles',
    title: 'List the files',
    access: 'files',
    query: { ...pageQuery('file'), session_id: text('Only the files of this session.') },
    replies: {
      200: {
        says: "a list of the session's [files](#file); without `session_id`, of all files of the account.",
        content: json(listOfObjects('File')),
      },
    },
    codes: { session_not_found: '' },
  },
  'DELETE /api/files/:id': {
    id: 'deleteFile',
    title: 'Delete a file',
    access: 'files',
    replies: { 204: { says: 'it is gone.' } },
    codes: { ...missing, file_expired: '' },
  },
}
