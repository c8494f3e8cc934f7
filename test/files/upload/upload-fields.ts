// The text fields of an upload, one by one.

import t from 'tap'
import { FormFields, fieldNames, unknownField } from '../../../src/files/upload/upload-fields.ts'
import { sessionId } from '../../fixtures/multipart-server.ts'

const other = sessionId.replace('0197', '0198')

function taken(fields: Readonly<Record<string, string>>, query = '') {
  const collected = new FormFields(new URLSearchParams(query))
  for (const [name, value] of Object.entries(fields)) collected.take(name, value)
  return collected
}

const refused = (code: string, param: string) => ({ name: 'GatewayError', code, param })

t.test('absent fields have their defaults', async (t) => {
  const fields = taken({ session_id: sessionId })
  t.equal(fields.session(), sessionId)
  t.equal(fields.purpose, 'user_data')
  t.equal(fields.expiresAfterS(), null)
  t.equal(fields.sha256, undefined)
})

t.test('given fields count', async (t) => {
  const sum = 'Ab'.repeat(32)
  const fields = taken({ purpose: 'fine-tune', expires_after: '3600', sha256: sum })
  t.equal(fields.purpose, 'fine-tune')
  t.equal(fields.expiresAfterS(), 3600)
  t.equal(fields.sha256, sum.toLowerCase())
})

t.test('the session comes from the form, the query, or equally from both', async (t) => {
  t.equal(taken({}, `session_id=${sessionId}`).session(), sessionId)
  t.equal(taken({ session_id: sessionId }, `session_id=${sessionId}`).session(), sessionId)
  t.throws(
    () => taken({ session_id: other }, `session_id=${sessionId}`),
    refused('invalid_parameter', 'session_id'),
  )
  t.throws(() => taken({}, 'session_id=a&session_id=a'), refused('invalid_parameter', 'session_id'))
})

t.test('without a session the upload is refused, with what to send', async (t) => {
  for (const fields of [taken({}), taken({ session_id: '' }), taken({}, 'session_id=')]) {
    t.throws(() => fields.session(), {
      ...refused('missing_parameter', 'session_id'),
      message: /before the file/,
    })
  }
  t.throws(
    () => taken({ session_id: '../sess' }).session(),
    refused('session_not_found', 'session_id'),
  )
})

t.test('each field at most once, and only known ones', async (t) => {
  for (const name of fieldNames) {
    const fields = taken({})
    fields.take(name, '')
    t.throws(() => fields.take(name, ''), refused('invalid_parameter', name))
  }
  for (const name of ['files', 'Session_id', 'session_id ', '__proto__', 'constructor', '']) {
    t.throws(() => taken({}).take(name, 'x'), refused('unknown_parameter', name))
  }
  t.equal(unknownField('x'.repeat(5000)).param?.length, 100, 'a long name is not sent back whole')
})

t.test('bad values are refused with the name of their field', async (t) => {
  const bad: Readonly<Record<string, readonly string[]>> = {
    purpose: ['User', 'a b', 'x'.repeat(65), 'données', '-'],
    expires_after: ['0', '-1', '1.5', '1e3', '007', 'soon', ' 1', '1234567890'],
    'expires_after[seconds]': ['0', 'x'],
    'expires_after[anchor]': ['last_active_at'],
    sha256: ['ab', 'g'.repeat(64), 'a'.repeat(65)],
  }
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) {
      t.throws(() => taken({ [name]: value }), refused('invalid_parameter', name), value)
    }
  }
})

t.test('a file expires after one second to ten years', async (t) => {
  t.equal(taken({ expires_after: '1' }).expiresAfterS(), 1)
  t.equal(taken({ expires_after: '315360000' }).expiresAfterS(), 315_360_000)
  const tooLong = taken({ expires_after: '315360001' })
  t.throws(() => tooLong.expiresAfterS(), refused('invalid_parameter', 'expires_after'))
})

t.test("expiry in the form of OpenAI's SDKs", async (t) => {
  const nested = { 'expires_after[anchor]': 'created_at', 'expires_after[seconds]': '60' }
  t.equal(taken(nested).expiresAfterS(), 60)
  t.equal(taken({ 'expires_after[seconds]': '60' }).expiresAfterS(), 60)
  t.throws(
    () => taken({ 'expires_after[anchor]': 'created_at' }).expiresAfterS(),
    refused('missing_parameter', 'expires_after[seconds]'),
  )
  t.throws(
    () => taken({ ...nested, expires_after: '60' }).expiresAfterS(),
    refused('invalid_parameter', 'expires_after'),
  )
})
