// The text of an answer so far, up to a limit. Cheap even for a million small pieces.

const maxText = 8 * 1_048_576
/** Joined from time to time: a string of many small pieces takes several times its length. */
const most = 4096

export class Transcript {
  #text = ''
  #pieces: string[] = []
  #length = 0

  add(text: string): void {
    if (text === '' || this.#length >= maxText) return
    const piece =
      this.#length + text.length > maxText ? text.slice(0, maxText - this.#length) : text
    this.#length += piece.length
    this.#pieces.push(piece)
    if (this.#pieces.length === most) this.#join()
  }

  get text(): string {
    this.#join()
    return this.#text
  }

  #join(): void {
    this.#text += this.#pieces.join('')
    this.#pieces = []
  }
}
