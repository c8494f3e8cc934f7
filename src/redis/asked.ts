// Turns a refusal or a missing answer of Redis into `ledger_unavailable`, with the cause kept; our own errors pass.

import { GatewayError } from '../errors.ts'

export async function asked<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    // A TypeError is a bug in this program: a retry does not help.
    if (error instanceof GatewayError || error instanceof TypeError) throw error
    throw new GatewayError('ledger_unavailable', { cause: error })
  }
}
