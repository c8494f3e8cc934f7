// The clients, in the order of the table.

import type { Language } from '../language.ts'

const found: Language[] = []
for (const name of ['typescript', 'python', 'go', 'rust']) {
  const module = (await import(`./${name}.ts`).catch(() => ({}))) as Record<string, Language>
  found.push(...Object.values(module))
}
export const languages: readonly Language[] = found
