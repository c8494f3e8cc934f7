// What differs between Node, Deno, Bun, workers and browsers, found by what is there. Everything else is alike.

interface Runtime {
  readonly process?: { readonly env?: Readonly<Record<string, string | undefined>> }
  readonly navigator?: { readonly userAgent?: string }
}

/** Pages and their workers: `User-Agent` is theirs, and a body can't be streamed to HTTP/1.1. */
export function isBrowser(): boolean {
  return (globalThis as Runtime).navigator?.userAgent?.startsWith('Mozilla/') ?? false
}

/** undefined too where reading the environment is not allowed. */
export function env(name: string): string | undefined {
  try {
    return (globalThis as Runtime).process?.env?.[name]
  } catch {
    return undefined
  }
}

/** A time-out that waits for nothing else keeps no process alive. */
export function unref(timer: ReturnType<typeof setTimeout>): void {
  // A number in browsers.
  const { unref: let_go } = timer as { unref?: () => void }
  let_go?.call(timer)
}

/** Where fetch doesn't tell of the connection: the words of those that surely made none. */
export function isRefusal(error: unknown): boolean {
  const { code, message, cause } = error as {
    readonly code?: unknown
    readonly message?: unknown
    readonly cause?: { readonly message?: unknown }
  }
  // Bun has codes, Deno has sentences.
  return /^(ECONNREFUSED|ENOTFOUND|ConnectionRefused|FailedToOpenSocket) |client error \(Connect\)/.test(
    `${String(code)} ${String(message)} ${String(cause?.message)}`,
  )
}
