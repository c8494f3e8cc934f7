// Ends a message whose owner is gone (killed, or frozen past its lease) as soon as any gateway looks at the message: as
// `incomplete`, with the words of its frames and the usage of its hold's last checkpoint. So no client waits for ever.

import type { Redis } from '../../redis/client.ts'
import { asked } from '../../redis/asked.ts'
import { latin1 } from '../../chat/frames.ts'
import { GatewayError, errorBody } from '../../errors.ts'
import type { HoldReader } from '../../ledger/hold-rows.ts'
import { keys } from '../../redis/keys.ts'
import { FairTurns } from '../../sharing/fair-turns.ts'
import { Assembly, ended } from './assembly.ts'
import { framesToData } from './frames.ts'
import { parseStored } from '../message.ts'
import type { StoredMessage } from '../message.ts'
import type { MessagePlace, StreamRows } from './stream-rows.ts'

export interface LostOptions {
  readonly redis: Redis
  readonly rows: StreamRows
  /** The ledger's. */
  readonly holds: HoldReader
}

/** Most reads of an answer's frames to collect its words; a read brings about 1 MiB. */
const mostReads = 1000
const wordsAtOnce = 4

export class Lost {
  readonly #options: LostOptions
  /** An unfinished answer may have megabytes of frames, which are read and parsed again for each look at it. */
  readonly #words = new FairTurns(wordsAtOnce)

  constructor(options: LostOptions) {
    this.#options = options
  }

  /** True when the message has ended, before this call or by it. */
  async finish(place: MessagePlace): Promise<boolean> {
    const { rows, holds } = this.#options
    const [state, stored] = await Promise.all([rows.state(place), this.#row(place)])
    const isRowFinal = stored !== undefined && stored.status !== 'in_progress'
    if (isRowFinal || state?.isEnded) return true
    const hold = stored?.hold ?? state?.hold
    // There is neither a row nor a stream: the message was withdrawn or deleted.
    if (hold === undefined) return true
    if (await holds.isLeased(place.ref, hold)) return false
    const error = new GatewayError('upstream_incomplete')
    const final = stored && (await this.#ended(place, { stored, hold, error }))
    const row = final ? JSON.stringify(final) : ''
    const data = latin1(errorBody(error, `req_${hold}`))
    const terminal = `data: ${data}\n\n`
    const reached = state?.next ?? 0
    return rows.finishLost({ ...place, hold }, { reached, terminal, row })
  }

  /** What a message that is generated elsewhere has said so far. */
  said(place: MessagePlace): Promise<Assembly> {
    return this.#words.run(place.ref, () => this.#collect(place))
  }

  async #collect(place: MessagePlace): Promise<Assembly> {
    const { rows } = this.#options
    const { said, saidNext, next } = await rows.words(place)
    const assembly = said ? Assembly.from(said) : new Assembly()
    let seq = saidNext
    for (let read = 0; seq < next && read < mostReads; read++) {
      const piece = await rows.frames(place, seq)
      if (!piece || piece.next === seq) break
      for (const data of framesToData(piece.text)) assembly.add(data)
      seq = piece.next
    }
    return assembly
  }

  async #row({ ref, session, message }: MessagePlace): Promise<StoredMessage | undefined> {
    const { redis } = this.#options
    return parseStored(await asked(redis.hget(keys.messages(ref, session), message)))
  }

  async #ended(place: MessagePlace, { stored, hold, error }: LostMessage): Promise<StoredMessage> {
    const said = await this.said(place)
    const charged = await this.#charged(place.ref, hold)
    return ended(stored, { said, status: 'incomplete', error, ...charged })
  }

  /** Cost and usage by the hold's last checkpoint: the hold is reaped already, or will be soon. Of a settled hold the cost alone. */
  async #charged(ref: string, hold: string) {
    const use = await this.#options.holds.usedBy(ref, hold)
    if (use.state === 'unknown') return { cost: 0 }
    if (use.state === 'settled') return { cost: use.charge }
    const { charge: cost, ...tokens } = use.used
    const isUsed = tokens.prompt + tokens.completion > 0
    return { cost, usage: isUsed ? { ...tokens, estimated: true } : undefined }
  }
}

interface LostMessage {
  readonly stored: StoredMessage
  readonly hold: string
  readonly error: GatewayError
}
