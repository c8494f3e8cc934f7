// The address of the client; behind trusted proxies, the forwarded address. X-Forwarded-For is read from the right, and
// an entry counts only if the hop that wrote it is trusted: what a client claims of itself is never believed.

import type { IncomingMessage } from 'node:http'
import { BlockList, isIP } from 'node:net'

export type ClientAddress = (req: IncomingMessage) => string

/** `trusted` are addresses and CIDRs; config/words.ts has checked them. */
export function createClientAddress(trusted: readonly string[]): ClientAddress {
  if (trusted.length === 0) return peerOf
  const list = blockListOf(trusted)
  const isTrusted = (address: string) => list.check(address, isIP(address) === 6 ? 'ipv6' : 'ipv4')
  return (req) => {
    const peer = peerOf(req)
    const forwarded = req.headers['x-forwarded-for']
    if (forwarded === undefined || isIP(peer) === 0) return peer
    return walk(peer, String(forwarded).split(','), isTrusted)
  }
}

function walk(
  peer: string,
  hops: readonly string[],
  isTrusted: (address: string) => boolean,
): string {
  let address = peer
  for (const hop of hops.toReversed()) {
    if (!isTrusted(address)) break
    const next = parseHop(hop)
    // If a trusted proxy wrote `unknown`, its own address is the last known one.
    if (next === undefined) break
    address = next
  }
  return address
}

function peerOf(req: IncomingMessage): string {
  return unmapped(req.socket.remoteAddress ?? '')
}

/** Some proxies add the port: `192.0.2.1:1234`, `[2001:db8::1]:1234`. */
function parseHop(text: string): string | undefined {
  const hop = text.trim()
  const bare = /^\[(.*)\](?::\d+)?$/.exec(hop)?.[1] ?? /^([\d.]+):\d+$/.exec(hop)?.[1] ?? hop
  const address = unmapped(bare)
  return isIP(address) === 0 ? undefined : address
}

/** On a dual-stack socket IPv4 looks like `::ffff:192.0.2.1`. */
function unmapped(address: string): string {
  const isMapped = address.length > 7 && address.slice(0, 7).toLowerCase() === '::ffff:'
  return isMapped && isIP(address.slice(7)) === 4 ? address.slice(7) : address
}

function blockListOf(trusted: readonly string[]): BlockList {
  const list = new BlockList()
  for (const entry of trusted) {
    const [address = '', prefix] = entry.split('/')
    const family = isIP(address) === 6 ? 'ipv6' : 'ipv4'
    if (prefix === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(prefix), family)
  }
  return list
}

/** A client with one IPv6 address can use all 2^64 of its network, so the network counts as one address. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address
  const [head = '', tail] = address.split('::')
  const groups = head.split(':').filter(Boolean)
  const missing =
    tail === undefined ? 0 : 8 - groups.length - tail.split(':').filter(Boolean).length
  const all = [...groups, ...Array.from({ length: Math.max(0, missing) }, () => '0')]
  if (tail !== undefined) all.push(...tail.split(':').filter(Boolean))
  return `${all.slice(0, 4).join(':')}::/64`
}
