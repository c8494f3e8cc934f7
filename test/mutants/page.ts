// Mutants of the account page: who gets in, who calls, and what they reach.

import { one } from './mutant.ts'
import type { Mutant } from './mutant.ts'

const access = (line: string, replacement: string) =>
  one('plugins/account/access.ts', line, replacement)
const portalLua = (name: string, line: string, replacement: string, test = 'portal/portal.ts') =>
  one(`portal/lua/${name}.lua`, line, replacement, test)
const oidc = 'plugins/account/oidc.ts'

export const pageMutants: readonly Mutant[] = [
  access('if (!isOwn(headers.origin, headers.host)) throw notTheSite()', ''),
  access(
    "if (!isJsonType(headers['content-type'])) throw new GatewayError('unsupported_media_type')",
    '',
  ),
  access("rate.take(login.ref, 'Too many requests of the account page.')", ''),
  one(
    'plugins/account/entry.ts',
    'if (before !== undefined) await portal.leave(entryOf(before))',
    '',
  ),
  one(
    'plugins/account/keys.ts',
    "if ((await accounts.getKeyRef(id)) !== ref) throw new GatewayError('key_not_found')",
    '',
  ),
  one('plugins/account/keys.ts', 'refuseBeyondPlan(given, planNamed(config, login.plan))', ''),
  one(
    'plugins/account/keys.ts',
    "pageKeys.take(login.ref, 'Too many keys of the playground.')",
    '',
  ),
  one('plugins/account/provider-tries.ts', 'if (refusal) throw refusal', ''),
  one('plugins/account/provider-tries.ts', 'rate.use(network, -1)', ''),
  one(
    'plugins/account/provider-tries.ts',
    'const giveBack = slots.take(network)',
    'const giveBack = () => {}',
  ),
  one('plugins/account/oidc.ts', 'await answerOnce(parts, kept)', ''),
  one(
    'plugins/limits.ts',
    "if (x.route.access === 'cookie') return undefined",
    '',
    'plugins/account/access.ts',
  ),
  one(
    'portal/provider.ts',
    'const execute = [...inClear, client.enableNonRepudiationChecks]',
    'const execute = [...inClear]',
    oidc,
  ),
  one('portal/provider.ts', 'if (!last) return asked', 'return asked'),
  one('portal/provider.ts', 'await soon(asked, newsMs)', 'await soon(asked, 60_000)'),
  one(
    'portal/provider.ts',
    'const [client, config] = await unlessAborted(known, AbortSignal.timeout(newsMs))',
    'const [client, config] = await known',
    oidc,
  ),
  one('portal/provider.ts', 'expectedNonce: nonce,', '', oidc),
  one(
    'portal/oidc.ts',
    "const isGood = typeof email === 'string' && isVerified === true && plainText.test(email)",
    "const isGood = typeof email === 'string' && plainText.test(email)",
    oidc,
  ),
  one('portal/oidc.ts', 'if (found) return found', '', oidc),
  one(
    'portal/settings.ts',
    "const isWeb = url?.protocol === 'https:' || url?.protocol === 'http:'",
    'const isWeb = true',
  ),
  one(
    'portal/secrets.ts',
    'const ref = shape.exec(text)?.[1] ?? nobody',
    'const ref = text.slice(0, 12)',
  ),
  portalLua('enter', "call('HDEL', links, link)", ''),
  portalLua(
    'enter',
    'and number(made) > owner.suspended_at and not owner.is_suspended',
    'and not owner.is_suspended',
  ),
  portalLua(
    'portal',
    'and begun > owner.suspended_at and not owner.is_suspended',
    'and not owner.is_suspended',
  ),
  portalLua(
    'portal',
    'local is_good = via ~= nil and now - used < idle and now - begun < whole',
    'local is_good = via ~= nil and now - used < idle',
  ),
  portalLua('portal', 'for i = 1, #living - most + 1 do gone[#gone + 1] = living[i].field end', ''),
  portalLua('portal', "call('DEL', name_of_key(page_keys, hmac))", '', 'portal/page-keys.ts'),
  portalLua(
    'portal',
    "local is_over = function(hash) return is_gone[hash] or call('HEXISTS', logins, hash) == 0 end",
    'local is_over = function() return false end',
    'portal/page-keys.ts',
  ),
  portalLua(
    'page_key',
    'local life = math.min(longest, known.begun + whole - now)',
    'local life = longest',
    'portal/page-keys.ts',
  ),
  portalLua(
    'page_key',
    'local gone = find_surplus(page_keys, most, ended_by(now))',
    'local gone = {}',
    'portal/page-keys.ts',
  ),
  one(
    'accounts/lua/key.lua',
    "if most and call('HLEN', list) >= most then return { 'key_limit_reached', now } end",
    '',
    'plugins/account/keys.ts',
  ),
  one(
    'accounts/once.ts',
    "`${use}${x.caller?.ref ?? ''}\\n${x.method} ${x.path}\\n${key}`,",
    '`${use}\\n${x.method} ${x.path}\\n${key}`,',
    'plugins/account/keys.ts',
  ),
]
