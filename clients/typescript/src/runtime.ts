// What differs between Node, Deno, Bun, workers and browsers, detected by what exists. Everything else is alike.

interface Runtime {
  readonly process?: { readonly env?: Readonly<Record<string, string | undefined>> }
  readonly navigator?: { readonly userAgent?: string }
}

/** Web pages and their workers: they set `User-Agent` themselves, and can't stream a body over HTTP/1.1. */
export function isBrowser(): boolean {
  return (globalThis as Runtime).navigator?.userAgent?.startsWith('Mozilla/') ?? false
}

/** undefined also when reading the environment is not allowed. */
export function env(name: string): string | undefined {
  try {
    return (globalThis as Runtime).process?.env?.[name]
  } catch {
    return undefined
  }
}

/** Lets the process end although this time-out is pending. */
export function unref(timer: ReturnType<typeof setTimeout>): void {
  // In browsers a timer is a number.
  const { unref: let_go } = timer as { unref?: () => void }
  let_go?.call(timer)
}

/** For a fetch that does not report its connection: the messages that prove that there was none. */
export function isRefusal(error: unknown): boolean {
  const { code, message, cause } = error as {
    readonly code?: unknown
    readonly message?: unknown
    readonly cause?: { readonly message?: unknown }
  }
  // Bun has error codes, Deno has sentences.
  return /^(ECONNREFUSED|ENOTFOUND|ConnectionRefused|FailedToOpenSocket) |client error \(Connect\)/.test(
    `${String(code)} ${String(message)} ${String(cause?.message)}`,
  )
}
