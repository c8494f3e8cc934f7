// Reads members of a zset from a cursor on. All scores are 0, so the members are in the order of their ids, which is
// creation order. A member is an id, or an id, a colon and more. A cursor is a position: its member need not exist.

import type { Redis } from 'ioredis'

export interface Members {
  /** An id; undefined starts at the first member in the direction of reading. */
  readonly cursor: string | undefined
  readonly isUpwards: boolean
  readonly count: number
}

export function readMembers(
  redis: Redis,
  key: string,
  { cursor, isUpwards, count }: Members,
): Promise<string[]> {
  // `;` is the character after the colon: `id;` sorts after the id and after all that begins with `id:`.
  return isUpwards
    ? redis.zrangebylex(key, cursor ? `(${cursor};` : '-', '+', 'LIMIT', 0, count)
    : redis.zrevrangebylex(key, cursor ? `(${cursor}` : '+', '-', 'LIMIT', 0, count)
}
