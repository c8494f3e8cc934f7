// Starts an image's command as a container engine does, without one: PID 1 of its own, the image's user without any
// capability, a read-only root, an empty /tmp, and the files that are mounted. The network is this machine's. Linux, root.

import { childrenOf, runProcess, startProcess } from '../../test/fixtures/process.ts'
import type { Running } from '../../test/fixtures/process.ts'
import type { Teardown } from '../../test/fixtures/teardown.ts'
import type { Image } from './build.ts'

export interface Container {
  /** Starts the image's entry point. */
  start(): Promise<Started>
  /** Runs another command beside it, as `docker exec` does. */
  exec(command: readonly string[]): Promise<{ readonly code: number | null; readonly out: string }>
}

export interface Started extends Pick<Running, 'log' | 'said'> {
  /** Sends a signal to the gateway, and resolves with the exit code: 128 and the signal if that has ended it. */
  signal(name: NodeJS.Signals): Promise<number | null>
}

/** `mounts`: files and folders of this machine by their paths in the container. */
export function containerOf(
  t: Teardown,
  image: Image,
  mounts: Readonly<Record<string, string>>,
): Container {
  const words = (command: readonly string[]) => wordsOf(image, mounts, command)
  return {
    async start() {
      const running = startProcess(t, words(image.command))
      const ended = new Promise<number | null>((resolve) => running.child.once('exit', resolve))
      return {
        log: running.log,
        said: running.said,
        async signal(name) {
          const [pid] = await childrenOf(running.child.pid ?? 0)
          if (pid === undefined) throw new Error('The container does not run')
          process.kill(pid, name)
          return ended
        },
      }
    },
    exec: (command) => runProcess(t, words(command)),
  }
}

function wordsOf(
  { root, env, user, workDir }: Image,
  mounts: Readonly<Record<string, string>>,
  command: readonly string[],
): readonly string[] {
  const own = ['--mount', '--pid', '--fork', '--kill-child']
  const pairs = Object.entries(mounts).flat()
  const count = String(pairs.length)
  const as = ['--reuid', user, '--regid', user, '--clear-groups', '--bounding-set=-all']
  // It ends when unshare is killed. `--kill-child` alone is forgotten when the user changes.
  const bound = ['--inh-caps=-all', '--no-new-privs', '--pdeathsig=KILL']
  const enter = [root, 'setpriv', ...as, ...bound]
  const inside = ['env', '-i', '-C', workDir, ...env, ...command]
  return ['unshare', ...own, 'sh', '-euc', mounting, root, count, ...pairs, ...enter, ...inside]
}

/** Its arguments: the root, the number of words of mounts, these (path in the container, path here), and chroot's. */
const mounting = `
root=$0 left=$1
shift
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/tmp"
chmod 1777 "$root/tmp"
while [ "$left" -gt 0 ]; do
  # As an engine does, this makes what is mounted over.
  [ -e "$root$1" ] || { [ -d "$2" ] && mkdir -p "$root$1" || touch "$root$1"; }
  mount --bind "$2" "$root$1"
  left=$((left - 2))
  shift 2
done
mount -o remount,bind,ro "$root"
exec chroot "$@"
`
