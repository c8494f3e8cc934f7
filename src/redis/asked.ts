// What Redis refuses or leaves unanswered is `ledger_unavailable`, with the cause kept; our own errors pass.

import { GatewayError } from '../errors.ts'

export async function asked<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    // A TypeError is a mistake of ours: nobody should wait for it to go away.
    if (error instanceof GatewayError || error instanceof TypeError) throw error
    throw new GatewayError('ledger_unavailable', { cause: error })
  }
}
