// `node bare.ts KIND PORT BACKEND_PORT REDIS_SOCKET`: a proxy that does nothing for a request but hand it on, for floor.ts. It
// shows what the parts that the gateway is built of cost by themselves.

import { Agent, createServer, request } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createProxyServer } from 'http-proxy-3'
import { Redis } from 'ioredis'

/**
 * `node`: Node's own server and client. `http-proxy-3`: that package's way through. `http-proxy-3, ioredis`: the same between
 * two scripts that do nothing, as the gateway's hold and settlement are around a request.
 */
export type BareKind = 'node' | 'http-proxy-3' | 'http-proxy-3, ioredis'

type Handle = (req: IncomingMessage, res: ServerResponse) => void

const agent = new Agent({ keepAlive: true, scheduling: 'lifo' })

function byNode(port: string): Handle {
  return (req, res) => {
    const { method, url, headers } = req
    const outgoing = request(
      { host: '127.0.0.1', port, agent, method, path: url, headers },
      (answer) => {
        res.writeHead(answer.statusCode ?? 0, answer.headers)
        answer.pipe(res)
      },
    )
    req.pipe(outgoing)
  }
}

function byPackage(port: string): Handle {
  const proxy = createProxyServer({ target: `http://127.0.0.1:${port}`, agent })
  return (req, res) => proxy.web(req, res)
}

async function withRedis(port: string, path: string): Promise<Handle> {
  const redis = new Redis({ path })
  const sha = String(await redis.script('LOAD', 'return 1'))
  const handOn = byPackage(port)
  return (req, res) => {
    const call = () => redis.evalsha(sha, 1, 'bare')
    res.once('finish', () => void call())
    void call().then(() => handOn(req, res))
  }
}

const [kind = '', port = '', backendPort = '', socket = ''] = process.argv.slice(2)
const kinds: Record<BareKind, () => Handle | Promise<Handle>> = {
  node: () => byNode(backendPort),
  'http-proxy-3': () => byPackage(backendPort),
  'http-proxy-3, ioredis': () => withRedis(backendPort, socket),
}
createServer(await kinds[kind as BareKind]()).listen(Number(port), '127.0.0.1')
