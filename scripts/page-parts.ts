// Makes the generated parts of pages in docs: the text between `<!-- made: NAME -->` and `<!-- end -->` is what `parts`
// has under that name; all other text of the page is written by hand.

import { errorTable } from '../src/error-table.ts'
import { GatewayError } from '../src/errors.ts'
import type { ErrorCode } from '../src/errors.ts'
import { bodyTables } from './body-tables.ts'
import { objectTables } from './object-tables.ts'
import { routeSections } from './route-sections.ts'

const parts: Readonly<Record<string, string>> = {
  errors: errorRows(),
  ...bodyTables(),
  ...objectTables(),
  ...routeSections(),
}

/** Returns the page with its parts as they are now. Throws when a mark names no part or has no end. */
export function refill(page: string): string {
  const marks = page.match(/<!-- made: /g)?.length ?? 0
  let filled = 0
  const text = page.replaceAll(
    /<!-- made: ([\w-]+) -->\n[^]*?<!-- end -->/g,
    (_all, name: string) => {
      const part = parts[name]
      if (part === undefined) throw new Error(`there is no part ${name}`)
      filled++
      return `<!-- made: ${name} -->\n\n${part}\n\n<!-- end -->`
    },
  )
  if (filled !== marks) throw new Error('a part has no end')
  return text
}

function errorRows(): string {
  const codes = Object.keys(errorTable) as ErrorCode[]
  const rows = codes.map((code) => {
    const { status, type, retry, message } = errorTable[code]
    // This code occurs only inside streams.
    const shown = code === 'message_cancelled' ? '—' : status
    const cells = [
      shown,
      `\`${type}\``,
      `\`${code}\``,
      retry ? 'yes' : 'no',
      sourceOf(code),
      message,
    ]
    return `| ${cells.join(' | ')} |`
  })
  const head = ['| status | type | code | retry | source | message |', '|---|---|---|---|---|---|']
  return [...head, ...rows].join('\n')
}

/** Whom the log usually names as the cause. */
function sourceOf(code: ErrorCode): string {
  return code.startsWith('upstream_') ? 'backend' : new GatewayError(code).source
}
