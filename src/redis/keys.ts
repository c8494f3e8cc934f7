// The names of all keys that the gateway writes to Redis.
// An account's keys share the hash tag {<ref>}: one slot of a Cluster, so that one script can touch them all.

/** `<ref>`: the 12 base62 characters of an account. `hour` and `day`: whole hours and days since 1970 (UTC). */
export const keys = {
  /** hash: id, name, status, plan, external_id, metadata, created_at, granted, spent, reserved, owed, waived, minute, requests, tokens, open (open holds), `open:<key id>` (of that key), next_expiry (ms of Redis TIME: no lease of a hold ends before, as far as anybody has looked), allowance, budget, `window` and `window:<key id>:<every>` (what budgets have used), archived and archived_last (journal entries in the store), suspended_at (ms; log-ins from before it are void), page_key (the id that all keys of the account page's playground have); of one that is deleted also closed_at, written_off (its books are closed), deleted_at (s) */
  account: (ref: string) => `{${ref}}:account`,
  /**
   * hash: id, name, hint, scopes, models, expires_at, revoked_at, created_at, last_used_at, rpm, tpm, concurrency,
   * minute, requests, tokens, budget, budget_of (the first key that it has replaced, with which it counts)
   */
  key: (ref: string, hmac: string) => `{${ref}}:key:${hmac}`,
  /** hash: key id → hmac */
  keyList: (ref: string) => `{${ref}}:keys`,
  /** hash: hold id → amount, charge and usage so far, opaque meta, the lease's deadline (ms of Redis TIME). Gateways of an earlier version have the deadlines in a zset, `{ref}:holds`. */
  holdRows: (ref: string) => `{${ref}}:open`,
  /** hash: hold id → what was charged, settled or reaped; `<hold id>:waived` and `<hold id>:counted` (in windows of budgets), of reaped ones; `kept` (1: EXPIRE is for the whole hour); hour of the hold id; EXPIRE 26 h */
  settled: (ref: string, hour: number) => `{${ref}}:settled:${hour}`,
  /** string: one credit's answer by idempotency key; EXPIRE 26 h */
  credit: (ref: string, id: string) => `{${ref}}:credit:${id}`,
  /** hash: reference of a payment → the entry of its top-up, its amount and the balance after it; kept for ever */
  payments: (ref: string) => `{${ref}}:payments`,
  /** stream: one entry for each change of the balance */
  journal: (ref: string) => `{${ref}}:journal`,
  /** hash: `<model>|<key id>|all` → the sums of an hour, in six words, but while `usageDay` has the hour; `<model>|<key id>` and `<model>|<key id>|waived`, what earlier gateways have counted beside it; EXPIRE 36 d, theirs 35 */
  usageHour: (ref: string, hour: number) => `{${ref}}:usage:h${hour}`,
  /** hash: `<model>|<key id>|all` → the six words of the hour in which it was last written, that hour, and the six words of the day's other hours; fields of earlier gateways; EXPIRE 400 d */
  usageDay: (ref: string, day: number) => `{${ref}}:usage:d${day}`,
  /** zset, all scores 0: session ids, so lexicographic order is creation order */
  sessions: (ref: string) => `{${ref}}:sessions`,
  /** hash: id, created_at, updated_at, title, model, instructions, metadata, messages (how many), bytes (of all rows), counted (what it counts in the account's storage), last (the greatest message id), ends (how many answers have ended, another end for the same answer included), active (the message that is generated), amended (how often a row got another cost); of one whose messages are in the store: asleep (the object that has them, and then neither `messageIds` nor `messages` are whole); of one that was woken: woken (ms) */
  session: (ref: string, session: string) => `{${ref}}:session:${session}`,
  /** zset, all scores 0: message ids of a session */
  messageIds: (ref: string, session: string) => `{${ref}}:session:${session}:ids`,
  /** hash: message id → the message as JSON */
  messages: (ref: string, session: string) => `{${ref}}:session:${session}:messages`,
  /** zset: `<session id>.<random>`, an object in the store with the messages of that session → when to look whether a session still names it, and to remove it if none does (ms of Redis TIME); written before the object */
  sessionObjects: (ref: string) => `{${ref}}:session-objects`,
  /** hash: hold (the id of its generation's hold), next (the next seq), bytes, counted (bytes that its session counts for it while it runs), touched (ms of the last append), open (1: will not be withdrawn, though there is no frame yet), cancelled, ended, lost (not ended by its owner), said and said_next (the text of the frames before seq said_next), `to:<seq>` (terminal events that readers of a lost stream got); EXPIRE when ended */
  stream: (ref: string, message: string) => `{${ref}}:stream:${message}`,
  /** stream: frames in batches, each under `<seq of its last frame + 1>-0` as `f`, the last with `e`: 1 from its owner, `lost` from another gateway; EXPIRE when ended */
  frames: (ref: string, message: string) => `{${ref}}:frames:${message}`,
  /** zset, all scores 0: file ids of the account */
  files: (ref: string) => `{${ref}}:files`,
  /** hash: id, bytes, created_at, expires_at, filename, purpose, session, content_type, sha256, row (what it counts beside its bytes); of an expired file only id, expires_at and session, EXPIRE 7 d */
  file: (ref: string, id: string) => `{${ref}}:file:${id}`,
  /** zset, all scores 0: file ids of a session */
  sessionFiles: (ref: string, session: string) => `{${ref}}:session:${session}:files`,
  /** hash: used (bytes of all files), rows (the sum of their `row`), reserved (what uploads may still need, rows included), `<file id>` (what that upload has reserved), sessions (what all sessions count), `<session id>` (what that one counts, where it may expire), frames, claims and told (what Redis removes by itself, as storage.lua has it), closed (the last minute of `dueAccounts` that covers nothing here) */
  storage: (ref: string) => `{${ref}}:storage`,
  /** zset: what the sweeper has to look at, and when (ms of Redis TIME): `upload <file id>` (its lease ends), `abandoned <file id> <tries>` (an upload that died), `expiry <file id>`, `object <file id> <tries>` (to be deleted from the store), `session <session id>` (its files go when it has gone) */
  due: (ref: string) => `{${ref}}:due`,
  /** string: the hash of a body, and `running` with a try's id or `kept` with ids of what the try created; EXPIRE 24 h, and 10 s while the first try runs */
  claim: (ref: string, name: string) => `{${ref}}:claim:${name}`,
  /** string: requests of a minute on routes without a hold: `<when the minute ends, s> * 2^21 + <requests>`; PEXPIRE when it ends */
  requests: (ref: string) => `{${ref}}:requests`,
  /** hash: SHA-256 of a portal link → `<end, ms> <made, ms> <where its page leads back to>`; EXPIRE with the last one */
  portalLinks: (ref: string) => `{${ref}}:portal-links`,
  /** hash: SHA-256 of a cookie → `<begun, ms> <last used, ms> <link or oidc> <where its page leads back to>`; EXPIRE with the last one */
  logins: (ref: string) => `{${ref}}:logins`,
  /** hash: HMAC of a key of the playground → `<end, ms> <the login that has it>`; EXPIRE with the last one */
  pageKeys: (ref: string) => `{${ref}}:page-keys`,
  /** zset, all scores 0: `<account id>:<ref>`, so lexicographic order is creation order; and the same of those that were deleted */
  accounts: 'accounts',
  deletedAccounts: 'deleted-accounts',
  /** zset, all scores 0: `<name>\0<account id>`; names that were given up stay, so readers compare */
  accountNames: 'account-names',
  /**
   * hash: `name:<name>` and `external:<external id>` → the account's id, and, while its row is being written, since
   * when (ms) and by how many calls; names that were given up stay, so readers compare
   */
  nameOwners: 'account-claims',
  /** hash: key id → ref */
  keyIds: 'key-ids',
  /** string: the fingerprint of the pepper under which keys are made; kept until an operator removes it */
  pepper: 'pepper-fingerprint',
  /** zset: `<minute since 1970>:<ref>` → that minute in ms: accounts whose `due` has something by then */
  dueAccounts: 'due-accounts',
  /** set: refs of accounts whose sessions have, or had, messages in the store; a ref stays */
  sleepers: 'sleepers',
  /** string: nobody needs to walk over the sessions of all accounts, because a gateway does so, or has done so; EXPIRE 50 min */
  sleepWalk: 'sleep-walk',
  /** set: refs of accounts that may owe something; `owed` of the account has the sum */
  debtors: 'debtors',
  /** string: a log-in at an identity provider whose answer has come; EXPIRE 10 min */
  answeredState: (hash: string) => `answered-state:${hash}`,
  /** string: the allowance that a deleted account had, by an HMAC of the log-in whose account it was; EXPIRE as `remember_deleted` says */
  deletedLogin: (hmac: string) => `deleted-login:${hmac}`,
  /** string: the body and the seed of an admin request, or of one of the account page, with an Idempotency-Key, sealed; EXPIRE 24 h */
  adminClaim: (name: string) => `admin-claim:${name}`,
} as const

/** What each script of the ledger declares first. It derives the keys of an hour itself: only Redis knows the hour. */
export function accountKeys(ref: string): readonly string[] {
  return [keys.account(ref), keys.holdRows(ref), keys.journal(ref)]
}
