// Every class of error, from every family of docs/errors.md, and errors in other shapes.

import assert from 'node:assert/strict'
import { each, one } from '../case.ts'
import type { Case } from '../case.ts'
import type { Piece } from '../server.ts'
import { block, errorBody, frames, plainStream, refuse } from '../transcript.ts'
import type { Refusal } from '../transcript.ts'
import { chat, list } from './steps.ts'

const invalid = 'invalid_request_error'
const away = { type: 'upstream_error', code: 'upstream_error' }
const never = { client: { max_retries: 0 } }

const table: readonly (readonly [string, Refusal])[] = [
  ['BadRequestError', { status: 400, type: invalid, code: 'unknown_parameter', param: 'titel' }],
  ['AuthenticationError', { status: 401, type: 'authentication_error', code: 'invalid_api_key' }],
  [
    'InsufficientBalanceError',
    { status: 402, type: 'billing_error', code: 'insufficient_balance' },
  ],
  ['PermissionDeniedError', { status: 403, type: 'permission_error', code: 'insufficient_scope' }],
  ['NotFoundError', { status: 404, type: 'not_found_error', code: 'model_not_found' }],
  ['BadRequestError', { status: 405, type: invalid, code: 'method_not_allowed' }],
  ['BadRequestError', { status: 408, type: 'timeout_error', code: 'request_timeout' }],
  ['ConflictError', { status: 409, type: 'conflict_error', code: 'session_busy' }],
  ['NotFoundError', { status: 410, type: 'gone_error', code: 'file_expired' }],
  ['BadRequestError', { status: 412, type: invalid, code: 'precondition_failed' }],
  ['BadRequestError', { status: 413, type: 'request_too_large', code: 'body_too_large' }],
  ['BadRequestError', { status: 415, type: invalid, code: 'unsupported_media_type' }],
  ['BadRequestError', { status: 416, type: invalid, code: 'range_not_satisfiable' }],
  ['BadRequestError', { status: 422, type: invalid, code: 'idempotency_key_reused' }],
  ['RateLimitError', { status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded' }],
  ['BadRequestError', { status: 431, type: invalid, code: 'headers_too_large' }],
  ['ServerError', { status: 500, type: 'server_error', code: 'internal_error' }],
  ['ServerError', { status: 502, type: 'upstream_error', code: 'upstream_error' }],
  ['ServerError', { status: 503, type: 'overloaded_error', code: 'server_draining' }],
  ['ServerError', { status: 504, type: 'timeout_error', code: 'upstream_timeout' }],
]

export const errors: readonly Case[] = [
  ...table.map(([name, refusal]) =>
    one(`${refusal.status} ${refusal.code} is ${/^[AI]/.test(name) ? 'an' : 'a'} ${name}`, {
      ...never,
      answers: [refuse(refusal, { 'retry-after': '7', 'x-request-id': 'req_head' })],
      steps: [list],
      saw: [
        {
          error: {
            class: name,
            status: refusal.status,
            code: refusal.code,
            type: refusal.type,
            param: refusal.param,
            request_id: 'req_head',
            retry_after: 7,
            message: new RegExp(`refused: ${refusal.code}`),
            text: new RegExp(
              `(^|: )${refusal.status} ${refusal.code}: refused: ${refusal.code} \\(request req_head\\)$`,
            ),
          },
        },
      ],
    }),
  ),
  one('an error that ended a stream says its code and request, too', {
    answers: [plainStream([...frames(['a']), block(JSON.stringify(errorBody(away)))])],
    steps: [chat],
    saw: [
      { error: { text: /(^|: )upstream_error: refused: upstream_error \(request req_body\)$/ } },
    ],
  }),
  one('the type stands in for a code that is not there, and the status for both', {
    ...never,
    answers: [
      { status: 502, json: { error: { message: 'it went wrong', type: 'a_type' } } },
      { status: 502, json: { error: 'it went wrong' } },
    ],
    steps: [list, list],
    saw: [
      { error: { text: /(^|: )502 a_type: it went wrong \(request req_\d+\)$/ } },
      { error: { text: /(^|: )502: it went wrong \(request req_\d+\)$/ } },
    ],
  }),
  one('the request id is the body’s where the head has none', {
    ...never,
    answers: [
      {
        raw: [
          'HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\nconnection: close\r\n\r\n',
          JSON.stringify(errorBody({ type: 'not_found_error', code: 'model_not_found' })),
        ],
      },
    ],
    steps: [list],
    saw: [{ error: { class: 'NotFoundError', request_id: 'req_body' } }],
  }),
  each(
    'an error of another shape has the class of its status',
    [
      '<html><h1>Bad gateway</h1></html>',
      '',
      '{"error":"it went wrong"}',
      '{"error":{"message":"it went wrong","code":502}}',
      '{"detail":[{"loc":["body"]}]}',
      '{"error":null}',
      '[1,2]',
      '"text"',
      '{"error":{"message":{"deep":1},"type":7,"param":[]},"request_id":5}',
      '{"error":{"message":"cut off in the mid',
    ],
    (body) => ({
      ...never,
      answers: [{ status: 502, body: [body], headers: { 'content-type': 'application/json' } }],
      steps: [list],
      saw: [{ error: { class: 'ServerError', status: 502, message: saysOr502(body) } }],
    }),
  ),
  one('a long error answer is not read to its end', {
    ...never,
    answers: [
      {
        status: 500,
        body: Array.from({ length: 512 }, () => 'x'.repeat(65_536)),
        headers: { 'content-type': 'text/plain' },
      },
    ],
    steps: [list],
    saw: [
      {
        error: {
          class: 'ServerError',
          status: 500,
          message: (text: string) => text.length < 10_000,
        },
      },
    ],
    check: ({ sent }) => assert.ok((sent[0]?.written ?? 0) < 24_000_000, `${sent[0]?.written}`),
  }),
  each(
    'an answer that is no JSON is no success',
    ['<html></html>', '', '{"object":"list","da'],
    (body) => ({
      ...never,
      answers: [{ body: [body], headers: { 'content-type': 'application/json' } }],
      steps: [{ op: 'billing.balance' }],
      saw: [{ error: { class: 'TollgateError' } }],
    }),
  ),
  each(
    'an answer cut off in its body is a failed connection',
    ['fin', 'reset'] as const,
    (end) => ({
      ...never,
      answers: [
        {
          headers: { 'content-type': 'application/json', 'content-length': '500' },
          body: ['{"object":'],
          end,
        },
      ],
      steps: [{ op: 'billing.balance' }],
      saw: [{ error: { class: 'ConnectionError', status: null } }],
    }),
  ),
  each('no connection is a ConnectionError', ['{closed}', '{closed}/v1'], (base_url) => ({
    client: { base_url, max_retries: 0 },
    steps: [list],
    saw: [{ error: { class: 'ConnectionError', status: null } }],
    sent: [],
  })),
  one('an answer that does not come is a TimeoutError', {
    client: { max_retries: 0, idle_timeout_ms: 300 },
    answers: [{ drop: 'open' }],
    steps: [list],
    saw: [{ error: { class: 'TimeoutError', status: null } }],
  }),
  one('a body that stays away is a TimeoutError', {
    client: { max_retries: 0, idle_timeout_ms: 300 },
    answers: [
      { headers: { 'content-type': 'application/json' }, body: ['{"object":'], end: 'open' },
    ],
    steps: [list],
    saw: [{ error: { class: 'TimeoutError' } }],
  }),
  one('a connection that is never made is a TimeoutError', {
    client: {
      base_url: '{silent}',
      max_retries: 0,
      connect_timeout_ms: 300,
      idle_timeout_ms: 1500,
    },
    steps: [list],
    saw: [{ error: { class: 'TimeoutError' } }],
    sent: [],
  }),
  one('a head that comes slowly, byte by byte, is waited for', {
    client: { max_retries: 0, idle_timeout_ms: 5000 },
    answers: [
      {
        raw: slowly(
          'HTTP/1.1 200 OK\r\ncontent-length: 27\r\nconnection: close\r\n\r\n{"object":"list","data":[]}',
        ),
      },
    ],
    steps: [list],
    saw: [{ ok: [] }],
  }),
]

function saysOr502(body: string): RegExp {
  return /"(message|error)":"it went wrong"/.test(body) ? /it went wrong/ : /502/
}

function slowly(text: string): readonly Piece[] {
  return [...text].flatMap((letter) => [letter, { pauseMs: 2 }])
}
