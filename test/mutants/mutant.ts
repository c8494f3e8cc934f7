// A line made wrong, and who must notice.

export interface Mutant {
  readonly file: string
  /** Without its indentation; the first such line is replaced. */
  readonly line: string
  readonly replacement: string
  /** Under test; one of them must fail. */
  readonly tests: readonly string[]
}

/** `path` is from src, `tests` from test: the one of the same path where none is given. */
export const one = (
  path: string,
  line: string,
  replacement: string,
  ...tests: readonly string[]
): Mutant => ({
  file: `src/${path}`,
  line,
  replacement,
  tests: tests.length > 0 ? tests : [path],
})
