import t from 'tap'
import { cookieName, readCookie, setCookie } from '../../src/portal/cookie.ts'

t.test('a cookie is read by its whole name, and not when there are two', async (t) => {
  t.equal(readCookie('a=1; tollgate=secret; b=2', 'tollgate'), 'secret')
  t.equal(readCookie('tollgate=a=b', 'tollgate'), 'a=b')
  t.equal(readCookie(undefined, 'tollgate'), undefined)
  t.equal(readCookie('xtollgate=1; tollgate2=1; =1; tollgate', 'tollgate'), undefined)
  t.equal(readCookie('__Host-tollgate=1', 'tollgate'), undefined)
  t.equal(readCookie('tollgate=mine; tollgate=planted', 'tollgate'), undefined)
})

t.test('over TLS only this host can set it, and it is never sent in clear', async (t) => {
  t.equal(
    setCookie('tollgate', 'v', { isSecure: true }),
    '__Host-tollgate=v; Path=/; Max-Age=604800; HttpOnly; SameSite=Lax; Secure',
  )
  t.equal(
    setCookie('tollgate', '', { isSecure: false, seconds: 0 }),
    'tollgate=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax',
  )
  t.equal(cookieName('tollgate', true), '__Host-tollgate')
})
