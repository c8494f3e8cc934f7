// The shapes of what the API answers, as the page reads them: docs/api.md has each field. Only comments: no browser
// loads this file.

/**
 * @template T
 * @typedef {{ data: T[], last_id: string | null, has_more: boolean }} List
 */

/**
 * @typedef {object} Allowance
 * @property {number} tokens
 * @property {string | null} every
 * @property {number} left a part of the balance
 * @property {number | null} renews_at
 *
 * @typedef {object} Budget
 * @property {number} tokens
 * @property {string} every
 * @property {number} used
 * @property {number | null} renews_at
 *
 * @typedef {object} Balance
 * @property {number} balance
 * @property {number} reserved
 * @property {number} available
 * @property {number} granted
 * @property {number} spent
 * @property {number} owed
 * @property {Allowance | null} allowance
 * @property {Budget | null} budget
 *
 * @typedef {object} Key
 * @property {string} id
 * @property {string} name
 * @property {string} hint
 * @property {string[]} scopes
 * @property {string[]} models
 * @property {Budget | null} budget
 * @property {number | null} expires_at
 * @property {number | null} revoked_at
 * @property {number | null} last_used_at
 * @property {number} created_at
 * @property {'active' | 'expired' | 'revoked'} status
 * @property {string} [key]
 *
 * @typedef {object} UsageRow
 * @property {number} start
 * @property {string} [model]
 * @property {string} [key_id]
 * @property {number} requests
 * @property {number} prompt_tokens
 * @property {number} completion_tokens
 * @property {number} [cached_tokens]
 * @property {number} cost
 * @property {number} [waived]
 *
 * @typedef {object} Transaction
 * @property {string} id
 * @property {string} type
 * @property {number} amount
 * @property {number} balance_after
 * @property {string} [model]
 * @property {{ prompt_tokens: number, completion_tokens: number, cached_tokens?: number }} [usage]
 * @property {boolean} [estimated]
 * @property {boolean} [cut]
 * @property {number} [owed]
 * @property {string} [key_id]
 * @property {string} [request_id]
 * @property {string} [note]
 * @property {string} [reference]
 * @property {number} created_at
 *
 * @typedef {object} Part
 * @property {string} type
 * @property {string} [text]
 * @property {{ file_id: string, filename?: string }} [file]
 *
 * @typedef {object} Message
 * @property {string} id
 * @property {string} role
 * @property {string | Part[] | null} content
 * @property {string | null} reasoning
 * @property {'in_progress' | 'completed' | 'cancelled' | 'failed' | 'incomplete'} status
 * @property {string | null} finish_reason
 * @property {string | null} model
 * @property {{ prompt_tokens: number, completion_tokens: number, estimated: boolean } | null} usage
 * @property {number | null} cost
 * @property {{ message: string, code: string } | null} error
 *
 * @typedef {object} Session
 * @property {string} id
 * @property {string | null} model
 * @property {string | null} active_message_id
 *
 * @typedef {object} Stored
 * @property {string} id
 * @property {string} filename
 * @property {number} bytes
 */

export {}
