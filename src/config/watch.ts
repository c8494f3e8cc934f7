// Looks whether the files of a configuration have changed, by their content, twice a second: so it also sees a link
// that was put elsewhere (Kubernetes), a file that an editor has replaced, and file systems that report no changes. A
// change counts when two looks in a row have found the same: a file that is still being written has no effect.

import { soon } from '../sharing/patience.ts'
import { digestsNow, sameDigests } from './read-files.ts'
import type { FileDigests } from './read-files.ts'

export interface WatchOptions {
  /** The files as they were last read. */
  readonly files: () => FileDigests
  readonly isOn: () => boolean
  /** Called when the files have changed. It has to read them, or it is called again. */
  readonly onChange: () => Promise<unknown>
  readonly everyMs?: number
}

export interface FileWatch {
  /** Resolves when no look is under way any more. A look that hangs, as its reload may, is awaited for 1 s at most. */
  stop(): Promise<void>
}

const stopMs = 1000

export function watchFiles({ isOn, everyMs = 500, ...looking }: WatchOptions): FileWatch {
  const look = createLook(looking)
  let done: Promise<void> | undefined
  const timer = setInterval(() => {
    if (done || !isOn()) return
    const finish = () => void (done = undefined)
    done = look().then(finish, finish)
  }, everyMs).unref()
  return {
    async stop() {
      clearInterval(timer)
      if (done) await soon(done, stopMs)
    },
  }
}

/** Each call looks once. */
export function createLook({
  files,
  onChange,
}: Pick<WatchOptions, 'files' | 'onChange'>): () => Promise<void> {
  let before = files()
  return async () => {
    const now = await digestsNow(files().keys())
    const isAtRest = sameDigests(now, before)
    before = now
    if (isAtRest && !sameDigests(now, files())) await onChange()
  }
}
