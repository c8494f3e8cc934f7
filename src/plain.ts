// Everything that the gateway does past a library has a name here, and TOLLGATE_PLAIN in the environment switches it
// off: the library then does it in its own way. An operator uses that to find the cause of a fault, or with a Node that
// is newer than the tested one. The table in ARCHITECTURE.md says what each name is for.

export const reaches = [
  'connection-list',
  'event-frames',
  'first-byte',
  'freed-buffers',
  'freed-reads',
  'key-hash',
  'receive-buffer',
  'redis-writes',
  'script-commands',
  'start-garbage',
  'token-tables',
  'write-queue',
] as const

export type Reach = (typeof reaches)[number]

/** The names that are switched off. Read once at the start: nothing is switched while the process runs. */
export const plain: Set<Reach> = new Set(namesIn(process.env['TOLLGATE_PLAIN']).filter(isReach))

/** Says which names in TOLLGATE_PLAIN do not exist; returns undefined when all exist. */
export function plainProblem(text: string | undefined): string | undefined {
  const unknown = namesIn(text).filter((name) => !isReach(name))
  if (unknown.length === 0) return undefined
  return `TOLLGATE_PLAIN: there is no ${unknown.join(', ')}. Write all, or some of ${reaches.join(', ')}.`
}

function namesIn(text = ''): readonly string[] {
  const names = text.split(',').map((name) => name.trim())
  return names.includes('all') ? reaches : names.filter((name) => name !== '')
}

function isReach(name: string): name is Reach {
  return reaches.some((reach) => reach === name)
}
