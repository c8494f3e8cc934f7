// src/plugin-api.ts: an operator's plugin has what it needs, and the gateway recognises its errors.

import { writeFile } from 'node:fs/promises'
import t from 'tap'
import { importPlugin } from '../src/config/own-plugin.ts'
import { GatewayError } from '../src/errors.ts'
import { tempDir } from './fixtures/temp-dir.ts'

const text = `
import { GatewayError, answering, z } from 'tollgate/plugin'
export const plugin = {
  name: 'mine',
  schema: z.strictObject({ word: z.string() }),
  setup: () => ({
    routes: [
      { method: 'GET', path: '/api/mine', access: 'anybody', body: 'none', begin: answering(async () => {
        throw new GatewayError('model_not_found')
      }) },
    ],
  }),
}
`

t.test(
  'a plugin in a folder that knows nothing of the gateway imports tollgate/plugin',
  async (t) => {
    // Outside this package, because inside it the name would be found.
    const dir = await tempDir(t)
    await writeFile(`${dir}/mine.mjs`, text)
    const { schema, setup } = await importPlugin(`${dir}/mine.mjs`)
    t.throws(() => schema.parse({ words: 1 }))
    const { routes = [] } = await setup(Object({}), {})
    const [route] = routes
    if (!route) throw new Error('no route')
    const refused = new GatewayError('model_not_found')
    await t.rejects(route.begin(Object({})).serve(Object({})), refused)
  },
)
