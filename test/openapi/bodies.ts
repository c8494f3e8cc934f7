import t from 'tap'
import { endpoints } from '../../src/config/endpoints.ts'
import { chatBody, sendBody, sessionBody, uploadBody } from '../../src/openapi/bodies.ts'
import { fieldNames } from '../../src/files/upload/upload-fields.ts'

const propertiesOf = ({ schema }: { readonly schema: object }) =>
  Object.keys((schema as { properties: object }).properties)

t.test('a body to a backend has what passes by itself, and needs its own field', async (t) => {
  for (const row of endpoints) {
    const body = chatBody(row)
    t.strictSame(body.schema['required'], ['model', row.required])
    const names = propertiesOf(body)
    t.ok(names.includes(row.required), row.endpoint)
    t.notOk(names.includes('service_tier'), 'which needs the word of the operator')
    t.notOk(names.includes('cache_salt'), 'which never passes')
    t.equal(names.includes('max_tokens'), row.generates, row.endpoint)
  }
})

t.test('a message has its own fields, and parameters of chat', async (t) => {
  const names = propertiesOf(sendBody)
  for (const name of ['content', 'messages', 'on_disconnect', 'temperature'])
    t.ok(names.includes(name), name)
  t.notOk('required' in sendBody.schema, 'content or messages')
})

t.test('a session has the fields of the schema that checks it, with its bounds', async (t) => {
  t.strictSame(propertiesOf(sessionBody), ['title', 'model', 'instructions', 'metadata'])
  t.match(JSON.stringify(sessionBody.schema), /"maxLength":200.*"maxProperties":16/)
  t.equal(sessionBody.schema['additionalProperties'], false)
})

t.test(
  'an upload has the fields that the form takes, but for the spelling of OpenAI',
  async (t) => {
    const taken = fieldNames.filter((name) => !name.includes('['))
    t.strictSame(propertiesOf(uploadBody).toSorted(), [...taken, 'file'].toSorted())
  },
)
