import t from 'tap'
import { loadConfig } from '../src/config/load.ts'
import { plugins } from '../src/gateway.ts'
import { secretsOf } from '../src/secrets.ts'

t.test(
  "what is never logged: keys and headers of targets, the gateway's own secrets",
  async (t) => {
    const yaml = `
admin: { token: admin-secret }
redis: { url: 'redis://127.0.0.1:1', password: redis-secret }
plugins: { auth: { pepper: pepper-secret } }
store: { s3: { bucket: files, access_key_id: ak, secret_access_key: s3-secret } }
models:
  a: { targets: [{ url: http://a/v1, key: key-a, headers: { x-b: header-b } }] }
  b: { targets: [{ url: http://b/v1?api-version=1&key=key-in-query }, { url: http://c/v1, key: key-c }] }
`
    const file = `${t.testdir({ 'gateway.yaml': yaml })}/gateway.yaml`
    const loaded = await loadConfig(file, plugins, { env: {} })
    if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems))
    t.same(secretsOf(loaded.config).toSorted(), [
      'admin-secret',
      'header-b',
      'key-a',
      'key-c',
      'key-in-query',
      'pepper-secret',
      'redis-secret',
      's3-secret',
    ])
  },
)
