// A line made wrong, and who must notice.

export interface Mutant {
  readonly file: string
  /** Without its indentation; the first such line is replaced. */
  readonly line: string
  readonly replacement: string
  /** Under test; one of them must fail. */
  readonly tests: readonly string[]
}

/** `path` and `test` are from src and test; the same where no test is given. */
export const one = (path: string, line: string, replacement: string, test = path): Mutant => ({
  file: `src/${path}`,
  line,
  replacement,
  tests: [test],
})
