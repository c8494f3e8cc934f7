// Decides who may call the admin API: nobody without the token, and no web page.

import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Config } from '../../config/config.ts'
import { GatewayError } from '../../errors.ts'

/** Returns a check that throws the refusal for the client. */
export function createDoorkeeper({ token, listen, hosts }: Config['admin']) {
  const allowed = new Set([listen.host, ...hosts].map((host) => host.toLowerCase()))
  // Hashes have the same length, so comparing them takes the same time for every token.
  const expected = hash('sha256', token, 'buffer')
  return ({ origin, host, authorization }: IncomingHttpHeaders) => {
    // A page that has its name resolve to this address (DNS rebinding) sends that name as Host.
    if (origin !== undefined) throw new GatewayError('origin_not_allowed')
    if (!isOurs(host, allowed)) throw new GatewayError('origin_not_allowed', { message: wrongHost })
    const given = /^Bearer +(\S+) *$/i.exec(authorization ?? '')?.[1]
    if (token === '' || given === undefined) throw new GatewayError('invalid_admin_token')
    const isRight = timingSafeEqual(hash('sha256', given, 'buffer'), expected)
    if (!isRight) throw new GatewayError('invalid_admin_token')
  }
}

const wrongHost =
  'The admin listener refuses this Host header. Call it by a loopback address, or list the host name in admin.hosts.'

function isOurs(host: string | undefined, allowed: ReadonlySet<string>): boolean {
  const name = /^(\[[\da-f:.]+\]|[^\s:/[\]@]+)(:\d{1,5})?$/i.exec(host ?? '')?.[1]?.toLowerCase()
  if (name === undefined) return false
  return isLoopback(name) || allowed.has(name) || allowed.has(name.replace(/^\[|\]$/g, ''))
}

function isLoopback(name: string): boolean {
  return name === 'localhost' || name === '[::1]' || /^127(\.\d{1,3}){3}$/.test(name)
}
