// Finds the processes of a test run: those that have the run's marker in their environment or work in its folder
// (redis-server overwrites its environment with its title). Needs /proc: on other systems it finds none.

import { readFile, readdir, readlink } from 'node:fs/promises'

export interface Found {
  readonly pid: number
  readonly command: string
}

/** `folder`: the run's folder for temporary files, which is also the value of its TOLLGATE_TEST_RUN. */
export async function processesOf(folder: string): Promise<readonly Found[]> {
  const names = await readdir('/proc').catch(() => [])
  const pids = names.map(Number).filter((pid) => pid > 1 && pid !== process.pid)
  const found = await Promise.all(pids.map((pid) => find(pid, folder)))
  return found.filter((one) => one !== undefined)
}

async function find(pid: number, folder: string): Promise<Found | undefined> {
  const [environ, command, cwd] = await Promise.all([
    readFile(`/proc/${pid}/environ`, 'latin1').catch(() => ''),
    readFile(`/proc/${pid}/cmdline`, 'latin1').catch(() => ''),
    readlink(`/proc/${pid}/cwd`).catch(() => ''),
  ])
  const isOurs =
    environ.split('\0').includes(`TOLLGATE_TEST_RUN=${folder}`) ||
    command.includes(`${folder}/`) ||
    cwd.startsWith(`${folder}/`)
  return isOurs ? { pid, command: command.replaceAll('\0', ' ').trim() } : undefined
}
