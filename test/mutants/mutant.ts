// A wrong line, and the tests that must notice it.

export interface Mutant {
  readonly file: string
  /** The line without its indentation; the first such line is replaced. */
  readonly line: string
  readonly replacement: string
  /** Paths below test; one of them must fail. */
  readonly tests: readonly string[]
}

/** `path` is below src, `tests` are below test; by default the test with the path of the source. */
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
