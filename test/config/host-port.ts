import t from 'tap'
import { parseHostPort } from '../../src/config/host-port.ts'

t.test('an address with a port is taken apart', async (t) => {
  t.same(parseHostPort('127.0.0.1:9090'), { host: '127.0.0.1', port: 9090 })
  t.same(parseHostPort('[::1]:9090'), { host: '::1', port: 9090 })
  t.same(parseHostPort(':9090'), { host: '0.0.0.0', port: 9090 })
  t.same(parseHostPort('9090'), { host: '127.0.0.1', port: 9090 })
})
