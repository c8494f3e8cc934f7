// Child processes that take orders of one kind by IPC, one at a time, and report when each is done.

import { fork } from 'node:child_process'
import { once } from 'node:events'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Teardown } from '../test/fixtures/teardown.ts'

export interface Worker<Order, Report> {
  readonly address: string
  order(order: Order): Promise<Report>
}

/** Starts `file`. The first message of the child is an address, or empty. */
export async function startWorker<Order extends object, Report>(
  t: Teardown,
  file: URL,
): Promise<Worker<Order, Report>> {
  const path = fileURLToPath(file)
  const child = fork(path, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  const exited = once(child, 'exit')
  t.teardown(async () => {
    child.kill('SIGKILL')
    await exited
  })
  const next = async (): Promise<unknown> => {
    const told = once(child, 'message').then(([message]: unknown[]) => message)
    const died = exited.then(() => Promise.reject(new Error(`${basename(path)} has ended`)))
    return Promise.race([told, died])
  }
  const address = (await next()) as string
  return {
    address,
    order: (order) => {
      child.send(order)
      return next() as Promise<Report>
    },
  }
}

/** Called in a worker: carries out its orders until the parent process has ended. */
export function obey<Order, Report>(
  address: string,
  carryOut: (order: Order) => Promise<Report>,
): void {
  process.on('disconnect', () => process.exit(0))
  process.on('message', (order: Order) => {
    void carryOut(order).then((report) => process.send?.(report))
  })
  process.send?.(address)
}
