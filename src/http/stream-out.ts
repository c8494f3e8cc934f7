// The interface of an answer that is written bit by bit. client-stream.ts implements it on a ServerResponse; a
// generation writes to it.

export interface StreamOut {
  /**
   * A string is latin1: one char a byte. A Buffer belongs to the stream afterwards, which frees it. Returns false when
   * the client is slow: wait for `drained`. Does nothing when the client has left.
   */
  write(bytes: string | Buffer): boolean
  /** Resolves when the client has taken what was written, or has left. */
  drained(): Promise<void>
  readonly left: boolean
}
