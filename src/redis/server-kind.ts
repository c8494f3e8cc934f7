// Finds out what kind of server answers where gateway.yaml says that Redis is. If it is another kind than the file
// says, tells what to write instead.

import { isIP } from 'node:net'
import type { RedisConfig } from '../config/config.ts'

/** INFO's fields by name. */
export type Info = ReadonlyMap<string, string>

export function parseInfo(text: string): Info {
  const pairs = text.split(/\r?\n/).flatMap((line) => {
    const [, name, value] = /^(\w+):(.*)$/.exec(line) ?? []
    return name !== undefined && value !== undefined ? [[name, value] as const] : []
  })
  return new Map(pairs)
}

type SingleRedis = Extract<RedisConfig, { kind: 'single' }>

/** Why the server at a URL is not what a URL may name, and what to write; undefined when it is. */
export function whyNoSingle(config: SingleRedis, info: Info): string | undefined {
  const place = config.path === undefined ? hostPort(config) : 'HOST:PORT'
  if (info.get('redis_mode') === 'sentinel') {
    const names = [...info].flatMap(([key, value]) =>
      /^master\d+$/.test(key) ? [/name=([^,]*)/.exec(value)?.[1] ?? ''] : [],
    )
    const name = names.join(' or ') || 'NAME'
    return `it is a Sentinel; write redis: { sentinels: ['${place}'], name: ${name} }`
  }
  if (info.get('cluster_enabled') === '1') {
    return `it is a node of a Redis Cluster; write redis: { cluster: ['${place}'] }`
  }
  if (info.get('role') !== 'slave') return undefined
  const primary = hostPort({
    host: info.get('master_host') ?? 'HOST',
    port: Number(info.get('master_port') ?? 0),
  })
  const scheme = config.tls ? 'rediss' : 'redis'
  const isCutOff = info.get('master_link_status') === 'down'
  const doubt = isCutOff ? ', if that has your accounts: this one does not reach it' : ''
  return `it is a replica and takes no writes; write the URL of its primary, ${scheme}://${primary}${doubt}`
}

/** The errors of servers that do not know the commands of a Cluster or of a Sentinel. */
const noCluster = /cluster support disabled/
const noCommand = /unknown command/i
const noName = /No such master with that name/

/** The same for a Cluster's nodes and for Sentinels, from the error that a server answered; `at` is its address. */
export function whyNoGroup(config: RedisConfig, error: string, at?: string): string | undefined {
  if (config.kind === 'cluster') {
    const place = at ?? config.nodes.map(hostPort).join(', ')
    if (noCluster.test(error)) {
      return `${place} is no node of a Cluster; write redis: redis://${place}, or a node's address`
    }
    if (noCommand.test(error)) {
      return `${place} is a Sentinel; write redis: { sentinels: ['${place}'], name: NAME }`
    }
  }
  if (config.kind === 'sentinel') {
    if (noCommand.test(error)) {
      return 'one of them is no Sentinel; write redis: redis://HOST:PORT, or the addresses of Sentinels'
    }
    if (noName.test(error)) return "they watch no primary of this name; write theirs as redis' name"
  }
  return undefined
}

export function hostPort({ host, port }: { readonly host: string; readonly port: number }): string {
  return isIP(host) === 6 ? `[${host}]:${port}` : `${host}:${port}`
}
