// A text that grows by small pieces, such as tokens. V8 keeps what is joined as a rope, 50 bytes a piece, so the pieces
// are made flat strings.

/** A rope grows by this much before it is made flat. */
const ropeChars = 128
/** A flat string of this length is left as it is: to make it longer would copy it each time. */
const flatChars = 1024

/** Written, and never read: V8's optimizer drops a call whose result nobody needs. */
const seen = { char: 0 }

/** V8 makes a rope flat when one of its characters is read. */
export function flatten(rope: string): void {
  seen.char = rope.charCodeAt(0)
}

export class FlatText {
  #flat: string[] = []
  #recent = ''
  #flattenAt = ropeChars
  #length = 0

  add(piece: string): void {
    this.#length += piece.length
    this.#recent += piece
    const { length } = this.#recent
    if (length < this.#flattenAt) return
    flatten(this.#recent)
    this.#flattenAt = length + ropeChars
    if (length < flatChars) return
    this.#flat.push(this.#recent)
    this.#recent = ''
    this.#flattenAt = ropeChars
  }

  get length(): number {
    return this.#length
  }

  /** The end of the text: the last 1024 chars, if there are so many, and up to 1024 more. */
  get newest(): string {
    return (this.#flat.at(-1) ?? '') + this.#recent
  }

  toString(): string {
    return this.#flat.join('') + this.#recent
  }
}
