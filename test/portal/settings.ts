import t from 'tap'
import { z } from '../../src/config/schema.ts'
import { pageOrigin, portalSettings, returnUrl } from '../../src/portal/settings.ts'

const schema = z.strictObject(portalSettings.shape)
const listen = { host: '0.0.0.0', port: 8080, trustedProxies: [] }
const config = (keys: object, tls = false) => ({
  plugins: new Map([['account', schema.parse(keys)]]),
  listen: { ...listen, ...(tls && { tls: { cert: '', key: '' } }) },
})

t.test('url: an origin, with TLS unless it is loopback', async (t) => {
  for (const url of [
    'https://chat.example.com',
    'https://a:8443',
    'http://localhost:80',
    'http://[::1]:1',
  ])
    t.ok(schema.safeParse({ url }).success, url)
  for (const url of [
    'http://chat.example.com',
    'https://a/path',
    'https://a?x',
    'https://a#x',
    'https://u@a',
    'ftp://a',
    'javascript:alert(1)',
    'chat.example.com',
    '',
  ])
    t.notOk(schema.safeParse({ url }).success, url)
})

t.test('return_urls: origins of web pages', async (t) => {
  t.ok(schema.safeParse({ return_urls: ['http://a.example', 'https://b:1'] }).success)
  for (const one of ['ftp://a', 'https://a/b', 'https://u:p@a', '*', 'a.example'])
    t.notOk(schema.safeParse({ return_urls: [one] }).success, one)
})

t.test('the page is where the configuration says, whatever the Host', async (t) => {
  const { origin, isSecure, isOwn } = pageOrigin(config({ url: 'https://Chat.example.com' }))
  t.equal(origin, 'https://chat.example.com')
  t.ok(isSecure)
  t.ok(isOwn('https://chat.example.com', 'inner:8080'))
  for (const other of [
    undefined,
    'null',
    'http://chat.example.com',
    'https://chat.example.com:444',
    'https://chat.example.com.evil.example',
    'https://evil.example',
  ])
    t.notOk(isOwn(other, 'evil.example'), String(other))
})

t.test('without a url it is on this machine alone', async (t) => {
  const { origin, isSecure, isOwn } = pageOrigin(config({}))
  t.strictSame([origin, isSecure], ['http://localhost:8080', false])
  t.ok(isOwn('http://localhost:8080', 'localhost:8080'))
  t.ok(isOwn('http://127.0.0.1:3', '127.0.0.1:3'))
  t.notOk(isOwn('http://localhost:8080', 'localhost:9090'))
  t.notOk(isOwn('http://evil.example', 'evil.example'), 'a name that resolves to this address')
  t.notOk(isOwn('http://127.0.0.1.evil.example', '127.0.0.1.evil.example'))
  t.notOk(isOwn('https://localhost', 'localhost'))
  t.notOk(isOwn(undefined, undefined))
  const secure = pageOrigin(config({}, true))
  t.strictSame([secure.origin, secure.isSecure], ['https://localhost:8080', true])
})

t.test('return_url: only web pages of the configured origins', async (t) => {
  const own = config({ return_urls: ['https://www.example.com', 'http://Localhost:3000'] })
  t.equal(returnUrl(own, 'https://www.example.com/a?b#c'), 'https://www.example.com/a?b#c')
  t.equal(returnUrl(own, 'https://WWW.example.com/ü'), 'https://www.example.com/%C3%BC')
  t.equal(returnUrl(own, 'http://localhost:3000'), 'http://localhost:3000/')
  for (const bad of [
    'javascript:alert(1)//https://www.example.com',
    'data:text/html,x',
    'blob:https://www.example.com/x',
    'https://www.example.com.evil.example/',
    'https://www.example.com@evil.example/',
    'https://user@www.example.com/',
    'http://www.example.com/',
    'https://www.example.com:444/',
    '//www.example.com/',
    '/account',
    'https:/\\evil.example',
    `https://www.example.com/${'x'.repeat(1000)}`,
    '',
  ])
    t.equal(returnUrl(own, bad), undefined, bad.slice(0, 60))
  t.equal(returnUrl(config({}), 'https://www.example.com/'), undefined, 'none is configured')
})
