// The lines of a text of any size, as they come: no more than a piece and one line is in memory.

/** A longer line is no count of tokens. */
export const maxLineChars = 64 * 1024

/** The whole lines of each piece, without their ends (LF or CRLF) and without a byte order mark. A line that is too long is cut, and then no more lines come. */
export async function* linesOf(pieces: AsyncIterable<string>): AsyncGenerator<readonly string[]> {
  let rest = ''
  let isFirst = true
  for await (const piece of pieces) {
    const lines = (rest + (isFirst ? piece.replace(/^\ufeff/, '') : piece)).split('\n')
    isFirst = false
    rest = lines.pop() ?? ''
    yield lines.map(withoutEnd)
    if (rest.length > maxLineChars) break
  }
  if (rest !== '') yield [withoutEnd(rest)]
}

function withoutEnd(line: string): string {
  return line.endsWith('\r') ? line.slice(0, -1) : line
}
