import t from 'tap'
import { hostOf, isBase64, isDataUrl, isListed } from '../../src/chat/address.ts'

t.test('a data URL is recognised by its beginning', async (t) => {
  for (const text of [
    'data:image/png;base64,AAAA',
    'data:;base64,AA',
    'data:,hi',
    'data:text/plain;charset=utf-8,x',
  ]) {
    t.ok(isDataUrl(text), text)
  }
  const none = [
    '',
    'data:',
    'data:image/png',
    'DATA:image/png;base64,AA',
    'data:image/svg+xml;base64,AA',
    'data:IMAGE/SVG+xml,<svg>',
    ' data:,x',
    'data: image/png,x',
    'da\nta:,x',
  ]
  for (const text of none) t.notOk(isDataUrl(text), text)
})

t.test('an https address can be read in only one way', async (t) => {
  t.equal(hostOf('https://example.com/a.png?x=1#y'), 'example.com')
  t.equal(hostOf('https://example.com'), 'example.com')
  t.equal(hostOf('https://example.com:443/a'), 'example.com')
  t.equal(hostOf('https://example.com:8443/a'), 'example.com:8443')
  t.equal(hostOf('https://127.0.0.1/a'), '127.0.0.1')
  t.equal(hostOf('https://[::1]/a'), '[::1]')
  const none = [
    'http://example.com/a',
    'HTTPS://example.com/a',
    'https://Example.com/a',
    'https://user@example.com/a',
    'https://user:pass@example.com/a',
    'https://good.com\\@evil.com/',
    'https:\\\\example.com/a',
    'https:/example.com/a',
    'https:example.com/a',
    '//example.com/a',
    '/etc/passwd',
    'a.png',
    'file:///etc/passwd',
    'ftp://example.com/a',
    'gopher://example.com/',
    'javascript:alert(1)',
    ' https://example.com/a',
    'https://example.com/a ',
    'https://example.com/a b',
    'https://exa\tmple.com/a',
    'https://example.com/\n',
    'https://exämple.com/a',
    'https://0x7f.0.0.1/a',
    'https://2130706433/a',
    'https://127.1/a',
    'https://example.com./a',
    'https://example.com:0443/a',
    'https://example.com:99999/a',
    'https://',
    `https://example.com/${'a'.repeat(8192)}`,
  ]
  for (const text of none) t.equal(hostOf(text), undefined, text.slice(0, 60))
})

t.test('hosts are listed one by one, or with all their subdomains', async (t) => {
  const listed = ['example.com', '*.cdn.example', 'img.example:8443', '10.0.0.1']
  for (const host of [
    'example.com',
    'a.cdn.example',
    'a.b.cdn.example',
    'img.example:8443',
    '10.0.0.1',
  ]) {
    t.ok(isListed(host, listed), host)
  }
  for (const host of [
    'a.example.com',
    'cdn.example',
    'xcdn.example',
    'evilcdn.example',
    'img.example',
    'example.com:8443',
    '10.0.0.2',
    'example.com.evil.org',
  ]) {
    t.notOk(isListed(host, listed), host)
  }
})

t.test('plain base64 is no address', async (t) => {
  t.ok(isBase64(`//uQZ${'A'.repeat(60)}=`))
  t.ok(isBase64('UklGRg=='))
  t.ok(isBase64('A'.repeat(10_000)))
  for (const text of [
    '',
    '//host/a',
    '/etc/passwd',
    `http://h/${'a'.repeat(60)}`,
    `${'a'.repeat(60)}.png`,
    `${'A '.repeat(60)}`,
  ])
    t.notOk(isBase64(text), text)
})
