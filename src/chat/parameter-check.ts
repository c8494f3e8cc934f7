// Judges the top of a body by the table of parameters, and what is in its messages by media.ts. What is wrong for every
// model is thrown at once; what only some models take is collected, and refused when the key is known (refusalFor).

import type { Model } from '../config/config.ts'
import { endpoints } from '../config/endpoints.ts'
import type { Endpoint, EndpointRow } from '../config/endpoints.ts'
import { GatewayError } from '../errors.ts'
import type { JsonScan, Member } from '../http/json/scan.ts'
import { invalid, unknown } from '../http/refusals.ts'
import { refuseTwice } from '../http/json/twice.ts'
import { isListed } from './address.ts'
import { readMedia } from './media.ts'
import type { RemoteAddress, Unlisted } from './media.ts'
import type { Fault } from './parameter-bounds.ts'
import { parameterRows } from './parameters.ts'
import type { ParameterRow } from './parameters.ts'

/** For scanJson: no key of a body may look like one of these without being it. */
export const parameterNames: ReadonlySet<string> = new Set(
  parameterRows.flatMap(({ names }) => names),
)

type Rules = ReadonlyMap<string, ParameterRow>

const rules: ReadonlyMap<Endpoint, Rules> = new Map(
  endpoints.map(({ endpoint }) => {
    const here = parameterRows.filter((row) => row.endpoints.includes(endpoint))
    return [endpoint, new Map(here.flatMap((row) => row.names.map((name) => [name, row])))]
  }),
)

/** The rows of the table for an endpoint, by name. */
export function rulesOf(endpoint: Endpoint): Rules {
  return rules.get(endpoint) ?? new Map()
}

export interface Judged {
  readonly unlisted: readonly Unlisted[]
  readonly addresses: readonly RemoteAddress[]
}

/** Throws invalid_json, invalid_parameter and unknown_parameter. */
export function judgeBody(scan: JsonScan, row: EndpointRow): Judged {
  const unlisted: Unlisted[] = []
  const addresses: RemoteAddress[] = []
  const rules = rulesOf(row.endpoint)
  for (const [name, member] of scan.members) {
    const rule = rules.get(name)
    if (!rule) unlisted.push({ name, param: name })
    else if (row.media.includes(name)) readMedia(name, { scan, member, unlisted, addresses })
    else judge(name, { rule, scan, member, unlisted })
  }
  return { unlisted, addresses }
}

interface Judging {
  readonly rule: ParameterRow
  readonly scan: JsonScan
  readonly member: Member
  readonly unlisted: Unlisted[]
}

/** Judges one parameter that is in the table. Null counts as absent, whatever the parameter is. */
export function judge(name: string, { rule, scan, member, unlisted }: Judging): void {
  const { way, why, check } = rule
  if (way === 'passes' || (way === 'gateway' && !check)) return
  const value = scan.value(name)
  if (value === null) return
  if (way === 'never') throw never(name, why)
  if (way === 'word') {
    // `false` switches the parameter off, so it asks for nothing.
    if (value !== false) unlisted.push({ name, param: name, why })
    return
  }
  refuseTwice(name, value, member)
  const fault = check?.(value, name, scan)
  if (fault) unlisted.push(unlistedOf(fault, { name, why }))
}

function unlistedOf(fault: Fault, { name, why }: { name: string; why: string }): Unlisted {
  if ('must' in fault) throw invalid(name + (fault.at ?? ''), fault.must)
  if ('unknown' in fault) throw unknown(name + fault.unknown)
  return { name: fault.word, param: name + fault.at, why }
}

function never(param: string, why: string): GatewayError {
  const message = `"${param}" is not allowed here. ${why}`
  return new GatewayError('unknown_parameter', { param, message })
}

/** The refusal of what this model does not take; undefined when it takes everything. */
export function refusalFor(
  { unlisted, addresses }: Judged,
  model: Pick<Model, 'extraParameters' | 'remoteMedia'>,
): GatewayError | undefined {
  const { extraParameters, remoteMedia } = model
  if (unlisted.length > 0 && !extraParameters.includes('*')) {
    const one = unlisted.find(({ name }) => !extraParameters.includes(name))
    if (one) return notLetThrough(one)
  }
  const remote = addresses.find(({ host }) => !isListed(host, remoteMedia))
  if (!remote) return undefined
  const what = `must be a data URL. The model may fetch nothing from "${remote.host}". To allow the host, the operator has to list it under the model's remote_media`
  return invalid(remote.param, what)
}

function notLetThrough({ name, param, why }: Unlisted): GatewayError {
  const known = why === undefined ? 'is not known here' : 'is not allowed for this model'
  const message = `"${param}" ${known}. Remove it, or ask the operator to list "${name}" under the model's extra_parameters.`
  return new GatewayError('unknown_parameter', { param, message })
}
