// The routes of sessions, their messages and their streams, for docs/api.md and the OpenAPI document.

import { sendBody, sessionBody } from './bodies.ts'
import { backendCodes } from './chat-routes.ts'
import { listOfObjects, ref } from './fields.ts'
import { json } from './operation.ts'
import type { Operations, GoodAnswer } from './operation.ts'
import { pageQuery, streamQuery } from './queries.ts'

const session: GoodAnswer['content'] = json(ref('Session'))
const message: GoodAnswer['content'] = json(ref('Message'))
const missing = { session_not_found: '' } as const

const stream = { 'text/event-stream': ref('Stream event') }
const streamHeaders = ['Location', 'Content-Location', 'X-Message-Id', 'X-User-Message-Id']

/** Of a session that has rested for `archive_after`. */
const asleep = { storage_unavailable: ', if the messages are in the store' } as const

const reading = {
  ...missing,
  ...asleep,
  invalid_last_event_id: '',
  message_not_found: '',
  stream_expired: ', with the message in `Location`',
  concurrency_limit_exceeded: '',
} as const

export const sessionRoutes: Operations = {
  'POST /api/chat/sessions': {
    id: 'createSession',
    title: 'Create a session',
    access: 'sessions',
    body: sessionBody,
    repeats: true,
    replies: {
      201: {
        says: 'the [session](#session), and its path in `Location`. The body is optional. A repeated call gets the session as it is now.',
        content: session,
        headers: ['Location'],
      },
    },
    codes: { model_not_allowed: '', storage_quota_exceeded: '', model_not_found: '' },
  },
  'GET /api/chat/sessions': {
    id: 'listSessions',
    title: 'List the sessions',
    access: 'sessions',
    query: pageQuery('sess'),
    replies: {
      200: {
        says: 'a list of [sessions](#session) without `instructions`.',
        content: json(listOfObjects('Session')),
      },
    },
  },
  'GET /api/chat/sessions/:id': {
    id: 'getSession',
    title: 'Show a session',
    access: 'sessions',
    replies: { 200: { says: 'the [session](#session).', content: session } },
    codes: missing,
  },
  'PATCH /api/chat/sessions/:id': {
    id: 'changeSession',
    title: 'Change a session',
    access: 'sessions',
    body: { ...sessionBody, fields: undefined },
    text: 'Takes the fields of the creation. A field that is not given stays as it is; null clears it.',
    replies: { 200: { says: 'the [session](#session) as it is now.', content: session } },
    codes: {
      model_not_allowed: '',
      storage_quota_exceeded: '',
      ...missing,
      model_not_found: '',
    },
  },
  'DELETE /api/chat/sessions/:id': {
    id: 'deleteSession',
    title: 'Delete a session',
    access: 'sessions',
    text: 'Deletes its messages and files too, and cancels an answer that is being generated.',
    replies: { 204: { says: 'it is gone.' } },
    codes: missing,
  },
  'POST /api/chat/sessions/:id/messages': {
    id: 'sendMessage',
    title: 'Send a message, and get the answer',
    access: 'sessions',
    body: sendBody,
    headers: ['Last-Event-ID', 'traceparent', 'tracestate'],
    repeats: true,
    text: `Adds messages to the session and generates the answer. Either \`content\` or \`messages\` is required. Besides the fields
below, the body may have the parameters of Chat Completions ([parameters.md](parameters.md)), except \`n\` and \`best_of\` over
1, \`audio\`, \`function_call\`, \`functions\` and \`metadata\`.`,
    replies: {
      200: {
        says: 'a [session stream](#session-streams), or the finished [message](#message). Both have `X-Message-Id`, `X-User-Message-Id` and `Content-Location`. With the header `Last-Event-ID` nothing is generated: the call goes on reading a stream, as `GET …/stream` does.',
        content: { ...message, ...stream },
        headers: [...streamHeaders, 'x-tollgate-balance-low'],
      },
      204: { says: 'only with `Last-Event-ID`: nothing follows that event.' },
    },
    codes: {
      ...backendCodes,
      ...reading,
      stream_expired:
        ' for a repeated call when the stream is no longer kept, with the message in `Location`',
      insufficient_balance: '',
      budget_exceeded: '',
      model_not_allowed: '',
      storage_quota_exceeded: '',
      file_not_found: '',
      model_not_found: '',
      unsupported_attachment: '',
      storage_unavailable: '',
      session_busy: ', with the running message in `message_id`',
    },
    passesRefusals: true,
    after: `A refused call leaves no message. Until the gateway has refused it, lists and \`active_message_id\` may already show its messages. After the
stream has begun, errors are events of the stream.`,
  },
  'GET /api/chat/sessions/:id/messages': {
    id: 'listMessages',
    title: 'List the messages of a session',
    access: 'sessions',
    query: pageQuery('msg', 'asc'),
    replies: {
      200: {
        says: 'a list of [messages](#message), oldest first. A message that is being generated is shown with its text so far.',
        content: json(listOfObjects('Message')),
      },
    },
    codes: { ...missing, ...asleep },
  },
  'GET /api/chat/sessions/:id/messages/:mid': {
    id: 'getMessage',
    title: 'Show a message',
    access: 'sessions',
    replies: { 200: { says: 'the [message](#message).', content: message } },
    codes: { ...missing, ...asleep, message_not_found: '' },
  },
  'GET /api/chat/sessions/:id/messages/:mid/stream': {
    id: 'readStream',
    title: 'Read the stream of an answer',
    access: 'sessions',
    query: streamQuery,
    headers: ['Last-Event-ID'],
    text: `Reads an answer's stream from any place, at any gateway. The client names the last event that it has:
\`Last-Event-ID: msg_…:17\`, or \`?starting_after=17\` (only the number). If both are given, the header counts; without either
the stream is sent from its beginning.`,
    replies: {
      200: {
        says: 'a [session stream](#session-streams).',
        content: stream,
        headers: streamHeaders,
      },
      204: { says: 'nothing follows, because that event is the last.' },
    },
    codes: reading,
  },
  'GET /api/chat/sessions/:id/stream': {
    id: 'readActiveStream',
    title: 'Read the stream of the answer that is being generated',
    access: 'sessions',
    query: streamQuery,
    headers: ['Last-Event-ID'],
    text: 'The same for the message that is being generated now.',
    replies: {
      200: {
        says: 'a [session stream](#session-streams).',
        content: stream,
        headers: streamHeaders,
      },
      204: { says: 'there is none.' },
    },
    codes: reading,
  },
  'POST /api/chat/sessions/:id/messages/:mid/cancel': {
    id: 'cancelMessage',
    title: 'Stop an answer',
    access: 'sessions',
    text: 'Stops an answer, from any gateway. No body.',
    replies: {
      200: {
        says: 'the [message](#message) as it ended; a repeated call changes nothing.',
        content: message,
      },
    },
    codes: { ...missing, ...asleep, message_not_found: '' },
  },
}
