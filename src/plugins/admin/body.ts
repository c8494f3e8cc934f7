// What bodies of the admin API have in common.

import { z } from '../../config/schema.ts'

/** Text for people: without control characters, which would end up on an operator's terminal. */
export function printable(maxLength: number) {
  return z
    .string()
    .max(maxLength, { error: `write at most ${maxLength} characters` })
    .regex(/^[^\p{Cc}\p{Cs}]*$/u, { error: 'write text without control characters' })
}
