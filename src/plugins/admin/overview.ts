// The configuration over HTTP, without secrets: models with their targets, and the whole effective configuration.

import type { Model, Price, Target } from '../../config/config.ts'
import type { Gateway } from '../../plugin.ts'
import { listOf } from '../../http/page.ts'
import { json } from '../../exchange.ts'
import type { Route } from '../../exchange.ts'
import { route } from './route.ts'

export function overviewRoutes({ config, effective }: Gateway): readonly Route[] {
  return [
    route('GET', 'targets', async () => {
      return json(listOf([...config.models.values()].map(showModel), false))
    }),
    route('GET', 'config', async () =>
      json({ object: 'config', file: config.file, config: effective }),
    ),
  ]
}

function showModel({
  id,
  aliases,
  endpoints,
  accepts,
  price,
  contextWindow,
  maxOutputTokens,
  targets,
}: Model) {
  return {
    id,
    object: 'model',
    aliases,
    endpoints,
    accepts,
    price: showPrice(price),
    context_window: contextWindow,
    max_output_tokens: maxOutputTokens,
    targets: targets.map(showTarget),
  }
}

function showTarget({ name, url, model, priority, weight }: Target) {
  return { object: 'target', name, url: withoutQuery(url), model, priority, weight }
}

/** Some backends take their key in the query. */
function withoutQuery(text: string): string {
  const url = URL.parse(text)
  return url && url.host !== '' ? `${url.protocol}//${url.host}${url.pathname}` : text
}

function showPrice({ input, output, cachedInput, request }: Price) {
  return {
    input: decimal(input),
    output: decimal(output),
    cached_input: decimal(cachedInput),
    request: decimal(request),
  }
}

/** Turns micro-units into the number as written in gateway.yaml; prices are small enough for a double. */
function decimal(micro: bigint): number {
  return Number(micro) / 1_000_000
}
