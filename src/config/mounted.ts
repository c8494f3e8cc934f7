// Whether a file is a mount point of its own, as in a container that is given gateway.yaml and not its folder. When a new file
// takes its place outside, as editors and git do it, the container goes on seeing the old one.

import { readFile, realpath } from 'node:fs/promises'

/** False where the system does not tell: `table` is Linux's. */
export async function isMountedAlone(
  file: string,
  table = '/proc/self/mountinfo',
): Promise<boolean> {
  try {
    const [path, mounts] = await Promise.all([realpath(file), readFile(table, 'utf8')])
    return mounts.split('\n').some((line) => mountPointOf(line) === path)
  } catch {
    return false
  }
}

/** The fifth word of a line; a blank in a path is written as `\040`. */
function mountPointOf(line: string): string | undefined {
  return line
    .split(' ')[4]
    ?.replaceAll(/\\([0-7]{3})/g, (_, octal: string) =>
      String.fromCharCode(Number.parseInt(octal, 8)),
    )
}
