// Every key that the gateway writes to Redis, named here, and the connections to it.
// An account's keys share the hash tag {<ref>}: one slot of a Cluster, so that one script can touch them all.

/** `<ref>`: the 12 base62 characters of an account. `hour` and `day`: whole hours and days since 1970 (UTC). */
export const keys = {
  /** hash: id, name, status, plan, external_id, metadata, created_at, granted, spent, reserved, minute, requests, tokens, `open:<key id>` (open holds of that key) */
  account: (ref: string) => `{${ref}}:account`,
  /** hash: id, name, hint, scopes, models, expires_at, revoked_at, created_at, last_used_at, rpm, tpm, concurrency, minute, requests, tokens */
  key: (ref: string, hmac: string) => `{${ref}}:key:${hmac}`,
  /** hash: key id → hmac */
  keyList: (ref: string) => `{${ref}}:keys`,
  /** zset: hold id → lease deadline (ms of Redis TIME) */
  holds: (ref: string) => `{${ref}}:holds`,
  /** hash: hold id → amount, charge and usage so far, opaque meta */
  open: (ref: string) => `{${ref}}:open`,
  /** hash: hold id → what was charged, settled or reaped; hour of the hold id; EXPIRE 25 h */
  settled: (ref: string, hour: number) => `{${ref}}:settled:${hour}`,
  /** string: one credit's answer by idempotency key; EXPIRE 25 h */
  credit: (ref: string, id: string) => `{${ref}}:credit:${id}`,
  /** stream: one entry a change of the balance */
  journal: (ref: string) => `{${ref}}:journal`,
  /** hash: sums a model and key; EXPIRE 35 d */
  usageHour: (ref: string, hour: number) => `{${ref}}:usage:h${hour}`,
  /** hash: the same a day; EXPIRE 400 d */
  usageDay: (ref: string, day: number) => `{${ref}}:usage:d${day}`,
  /** rate-limiter-flexible: requests a minute on routes without a hold */
  rate: (ref: string) => `{${ref}}:rate`,
  /** zset, all scores 0: `<account id>:<ref>`, so lexicographic order is creation order */
  accounts: 'accounts',
  /** zset, all scores 0: `<name>\0<account id>`; names that were given up stay, so readers compare */
  accountNames: 'account-names',
  /** hash: key id → ref */
  keyIds: 'key-ids',
  /** string: what an Idempotency-Key of the admin API stands for, sealed; EXPIRE 24 h */
  adminClaim: (name: string) => `admin-claim:${name}`,
} as const
