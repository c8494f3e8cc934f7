// Counts the results of a tap run over several files: the result of a file is not indented, those of its tests are
// once.

export interface TapCount {
  readonly passed: number
  readonly failed: number
}

/** A file that failed without a failed test (a crash, a time-out) counts as one failure. Skipped and to-do tests are not counted. */
export function countTap(lines: readonly string[]): TapCount {
  let passed = 0
  let failed = 0
  let failedInFile = 0
  let isDiagnostic = false
  for (const line of lines) {
    if (/^ *(---|\.\.\.)$/.test(line)) isDiagnostic = line.endsWith('---')
    const point = isDiagnostic ? null : /^( {4})?(not )?ok \d+(.*)$/.exec(line)
    if (!point) continue
    const [, isTest, isFailed, rest = ''] = point
    if (/ # (SKIP|TODO)/i.test(rest)) continue
    if (isTest) {
      if (isFailed) failedInFile++
      else passed++
      continue
    }
    failed += isFailed ? Math.max(1, failedInFile) : failedInFile
    failedInFile = 0
  }
  return { passed, failed: failed + failedInFile }
}
