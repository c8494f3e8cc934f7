// Members of a zset whose scores are all 0, from a cursor on, so that creation order is the order of the ids. A member is an id, or
// an id, a colon and more. A cursor is a place: whether a member is still there does not matter.

import type { Redis } from 'ioredis'

export interface Members {
  /** An id; from the end in whose direction nothing lies where it is undefined. */
  readonly cursor: string | undefined
  readonly isUpwards: boolean
  readonly count: number
}

export function readMembers(
  redis: Redis,
  key: string,
  { cursor, isUpwards, count }: Members,
): Promise<string[]> {
  // `;` is the character after the colon: `id;` stands behind the id and behind all that begins with `id:`.
  return isUpwards
    ? redis.zrangebylex(key, cursor ? `(${cursor};` : '-', '+', 'LIMIT', 0, count)
    : redis.zrevrangebylex(key, cursor ? `(${cursor}` : '+', '-', 'LIMIT', 0, count)
}
