// Reads a text file, or says in words why it cannot be read: Node's message would repeat the absolute path.

import { readFile } from 'node:fs/promises'

export type ReadText = { readonly text: string } | { readonly fault: string }

export async function readText(path: string): Promise<ReadText> {
  try {
    return { text: new TextDecoder('utf-8', { fatal: true }).decode(await readFile(path)) }
  } catch (error) {
    return { fault: whyUnreadable(error) }
  }
}

export function whyUnreadable(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  if (code === 'ENOENT') return 'there is no such file'
  if (code === 'EACCES') return 'permission denied'
  if (code === 'EISDIR') return 'it is a folder'
  if (code === 'ERR_ENCODING_INVALID_ENCODED_DATA') return 'it is not UTF-8 text'
  return String(code ?? error)
}
