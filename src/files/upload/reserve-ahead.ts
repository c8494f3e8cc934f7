// Reserves storage for a file of uncertain length: at once for all that the request can hold, so that a file that
// cannot fit is refused before it is sent; in slices when the request has no length. Near the end of the quota, exactly
// the bytes that have come are reserved, so that no file that fits is refused.

import { hasCode } from '../../errors.ts'

export interface Reserved {
  /** Reserved so far. */
  readonly bytes: number
  /** Resolves when at least `total` is reserved. Throws what `reserve` throws. */
  extend(total: number): Promise<void>
}

interface Source {
  readonly maxBytes: number
  reserve(totalBytes: number): Promise<void>
}

const sliceBytes = 8 * 1024 * 1024
/** How much of a body may be other than the file: boundaries, headers of parts, fields. */
export const formBytes = 64 * 1024

/** `bodyBytes`: the request's length, NaN where it is not known. */
export function reserveAhead(source: Source, bodyBytes: number): Reserved {
  let bytes = 0
  return {
    get bytes() {
      return bytes
    },
    async extend(total) {
      const steps = Number.isNaN(bodyBytes) ? slices(total) : [bodyBytes, bodyBytes - formBytes]
      const totals = steps.map((step) => Math.min(source.maxBytes, Math.max(total, step)))
      for (const [index, step] of totals.entries()) {
        if (step === totals[index + 1]) continue
        try {
          await source.reserve(step)
          bytes = step
          return
        } catch (error) {
          const isLast = index === totals.length - 1
          if (isLast || !hasCode(error, 'storage_quota_exceeded')) throw error
        }
      }
    },
  }
}

function slices(total: number): readonly number[] {
  return [sliceBytes, sliceBytes / 8, sliceBytes / 64, 0].map((ahead) => total + ahead)
}
