// Lets V8 collect the commands that carry scripts with the requests that sent them. ioredis writes a command's `reject` as
// a function directly behind `this.reject =`, and V8 makes such a function in its old generation, where it keeps the
// command and its promise until the next full collection: 4 KB a request.

import type { Command } from 'ioredis'
import { plain } from '../plain.ts'

/** What ioredis' types keep private of a command. */
interface CommandInside {
  readonly name: string
  readonly callback: unknown
  readonly errorStack: unknown
  isResolved: boolean
  isSettled: boolean
  transformed: boolean
  resolve: (value: unknown) => unknown
  reject: (error: Error) => void
  promise: Promise<unknown>
  initPromise(): void
  stringifyArguments(): void
  _clearTimers(): void
  _convertValue(resolve: (value: unknown) => void): (value: unknown) => unknown
}

/** For `EVALSHA` alone, whose words ioredis does not rewrite. With a new ioredis, read its own `initPromise` again. */
export function keepYoung(command: typeof Command): void {
  // Its types declare these members as private: there is no other way to reach them.
  const inside = command.prototype as unknown as CommandInside
  const { initPromise } = inside
  inside.initPromise = function (this: CommandInside) {
    const isOurs = this.name === 'evalsha' && !this.callback && !this.errorStack
    if (!isOurs || plain.has('young-commands')) return initPromise.call(this)
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    // Each has a name before it is assigned, and so is made among the young objects.
    const rejected = (error: Error) => {
      this._clearTimers()
      this.isSettled = true
      reject(error)
    }
    const resolved = this._convertValue(resolve)
    this.isResolved = false
    this.isSettled = false
    this.transformed = true
    this.stringifyArguments()
    this.resolve = resolved
    this.reject = rejected
    this.promise = promise
  }
}
