// src/store/store.ts: which names are allowed, and how failures of a store are reported.

import t from 'tap'
import { GatewayError } from '../../src/errors.ts'
import {
  checkName,
  checkPrefix,
  isName,
  NoSuchObject,
  storageError,
} from '../../src/store/store.ts'

t.test('a name leads to one object, and a prefix to none outside the store', async (t) => {
  for (const name of ['a', 'a/b', 'A-_=.z/0', '-', 'x'.repeat(200)]) {
    t.ok(isName(name), name)
    checkName(name)
    checkPrefix(name)
  }
  for (const name of ['', '/', 'a/', '/a', 'a//b', '.', '..', 'a/..', '.a', 'a/.b', 'a%', 'a b']) {
    t.notOk(isName(name), JSON.stringify(name))
    t.throws(() => checkName(name), TypeError, JSON.stringify(name))
  }
  for (const prefix of ['', 'a', 'a/', 'a/b', 'a/b/']) checkPrefix(prefix)
  for (const prefix of ['/', '../', 'a//', '.a/b', 'a/../b']) {
    t.throws(() => checkPrefix(prefix), TypeError, prefix)
  }
})

t.test('a failure is wrapped once, with its cause, and a missing object is none', async (t) => {
  const cause = new Error('ENOSPC')
  const told = storageError(cause)
  t.match(told, { code: 'storage_unavailable', status: 503, cause })
  t.equal(storageError(told), told)
  const missing = new NoSuchObject('a')
  t.equal(storageError(missing), missing)
  t.notOk(missing instanceof GatewayError)
})
