// What in a server's settings would lose balances. `tollgate doctor` says it of every server, and a gateway that starts
// warns of it once. It starts all the same: a hosted server may be persistent in ways that INFO does not tell.

import type { Log } from '../log.ts'
import { isCluster } from './client.ts'
import type { Redis } from './client.ts'
import { parseInfo } from './server-kind.ts'
import type { Info } from './server-kind.ts'

export interface SettingFault {
  readonly detail: string
  /** It loses balances as things are, and not only after a crash or once something else is set. */
  readonly isCertain: boolean
}

export function evictionFault(info: Info): SettingFault | undefined {
  const policy = info.get('maxmemory_policy') ?? 'unknown'
  if (policy === 'noeviction') return undefined
  const isCertain = info.get('maxmemory') !== '0'
  const what = isCertain
    ? 'Redis deletes balances when its memory is full'
    : 'if a maxmemory is set, Redis will delete balances when memory is full'
  return { detail: `${policy}: ${what}; set maxmemory-policy noeviction`, isCertain }
}

export function persistenceFault(info: Info): SettingFault | undefined {
  if (info.get('aof_enabled') === '1') return undefined
  const detail = 'no append-only file: a crash of Redis loses balances; set appendonly yes'
  return { detail, isCertain: false }
}

/** Of a Cluster, asks every primary. Rejects when one does not answer. */
export async function warnOfSettings(client: Redis, log: Pick<Log, 'warn'>): Promise<void> {
  const servers = isCluster(client) ? client.nodes('master') : [client]
  const infos = await Promise.all(servers.map(async (server) => parseInfo(await server.info())))
  const faults = infos.flatMap((info) => [evictionFault(info), persistenceFault(info)])
  const details = new Set(faults.flatMap((fault) => fault?.detail ?? []))
  for (const detail of details) log.warn({ detail }, 'Redis may lose balances')
}
