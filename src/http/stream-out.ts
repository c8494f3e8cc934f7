// The face of an answer that is written bit by bit. http/client-stream.ts makes it of a ServerResponse; a generation writes to it.

export interface StreamOut {
  /**
   * latin1: one char a byte. A Buffer is the stream's from then on, which frees it. Returns false when the client is slow:
   * wait for `drained`. A gone client swallows.
   */
  write(bytes: string | Buffer): boolean
  /** Resolves when the client has taken what was written, or has left. */
  drained(): Promise<void>
  readonly left: boolean
}
