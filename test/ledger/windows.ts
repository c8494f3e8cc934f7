// Days, weeks and months in a time zone: at the end of a month, when clocks change, and where a day has no midnight.

import t from 'tap'
import { Windows } from '../../src/ledger/windows.ts'

const iso = (ms: string | undefined) => new Date(Number(ms)).toISOString().replace(':00.000Z', 'Z')

/** The windows at an instant, as `[day, end, week, end, month, end]`. */
function windowsAt(zone: string, at: string): readonly string[] {
  return new Windows(zone, () => Date.parse(at)).text.split(' ').map(iso)
}

const cases = [
  [
    'UTC, the last instant of a month that is a Sunday',
    'UTC',
    '2027-01-31T23:59:59.999Z',
    ['2027-01-31T00:00Z', '2027-02-01T00:00Z', '2027-01-25T00:00Z', '2027-02-01T00:00Z'],
    ['2027-01-01T00:00Z', '2027-02-01T00:00Z'],
  ],
  [
    'UTC, the first instant of a month',
    'UTC',
    '2027-02-01T00:00:00.000Z',
    ['2027-02-01T00:00Z', '2027-02-02T00:00Z', '2027-02-01T00:00Z', '2027-02-08T00:00Z'],
    ['2027-02-01T00:00Z', '2027-03-01T00:00Z'],
  ],
  [
    'a leap day',
    'UTC',
    '2028-02-29T12:00:00.000Z',
    ['2028-02-29T00:00Z', '2028-03-01T00:00Z', '2028-02-28T00:00Z', '2028-03-06T00:00Z'],
    ['2028-02-01T00:00Z', '2028-03-01T00:00Z'],
  ],
  [
    'the end of a year in Berlin',
    'Europe/Berlin',
    '2026-12-31T23:30:00.000Z',
    ['2026-12-31T23:00Z', '2027-01-01T23:00Z', '2026-12-27T23:00Z', '2027-01-03T23:00Z'],
    ['2026-12-31T23:00Z', '2027-01-31T23:00Z'],
  ],
  [
    'a day of 23 hours',
    'Europe/Berlin',
    '2027-03-28T12:00:00.000Z',
    ['2027-03-27T23:00Z', '2027-03-28T22:00Z', '2027-03-21T23:00Z', '2027-03-28T22:00Z'],
    ['2027-02-28T23:00Z', '2027-03-31T22:00Z'],
  ],
  [
    'a day of 25 hours',
    'Europe/Berlin',
    '2026-10-25T12:00:00.000Z',
    ['2026-10-24T22:00Z', '2026-10-25T23:00Z', '2026-10-18T22:00Z', '2026-10-25T23:00Z'],
    ['2026-09-30T22:00Z', '2026-10-31T23:00Z'],
  ],
  [
    'a day that begins at one, since its midnight was left out',
    'Africa/Cairo',
    '2026-04-24T12:00:00.000Z',
    ['2026-04-23T22:00Z', '2026-04-24T21:00Z', '2026-04-19T22:00Z', '2026-04-26T21:00Z'],
    ['2026-03-31T22:00Z', '2026-04-30T21:00Z'],
  ],
  [
    'a zone that left out a whole day',
    'Pacific/Apia',
    '2011-12-30T09:59:59.999Z',
    ['2011-12-29T10:00Z', '2011-12-30T10:00Z', '2011-12-26T10:00Z', '2012-01-01T10:00Z'],
    ['2011-12-01T10:00Z', '2011-12-31T10:00Z'],
  ],
  [
    'far east of UTC',
    'Pacific/Kiritimati',
    '2026-11-30T10:00:00.000Z',
    ['2026-11-30T10:00Z', '2026-12-01T10:00Z', '2026-11-29T10:00Z', '2026-12-06T10:00Z'],
    ['2026-11-30T10:00Z', '2026-12-31T10:00Z'],
  ],
  [
    'minutes beside the hour',
    'Asia/Kathmandu',
    '2026-11-30T18:14:59.999Z',
    ['2026-11-29T18:15Z', '2026-11-30T18:15Z', '2026-11-29T18:15Z', '2026-12-06T18:15Z'],
    ['2026-10-31T18:15Z', '2026-11-30T18:15Z'],
  ],
  [
    'half an hour beside the hour',
    'Asia/Kolkata',
    '2026-11-30T18:29:59.999Z',
    ['2026-11-29T18:30Z', '2026-11-30T18:30Z', '2026-11-29T18:30Z', '2026-12-06T18:30Z'],
    ['2026-10-31T18:30Z', '2026-11-30T18:30Z'],
  ],
  [
    'the first instant of a month there',
    'Asia/Kolkata',
    '2026-11-30T18:30:00.000Z',
    ['2026-11-30T18:30Z', '2026-12-01T18:30Z', '2026-11-29T18:30Z', '2026-12-06T18:30Z'],
    ['2026-11-30T18:30Z', '2026-12-31T18:30Z'],
  ],
  [
    'a day of 23 hours, half an hour beside the hour',
    'America/St_Johns',
    '2027-03-14T12:00:00.000Z',
    ['2027-03-14T03:30Z', '2027-03-15T02:30Z', '2027-03-08T03:30Z', '2027-03-15T02:30Z'],
    ['2027-03-01T03:30Z', '2027-04-01T02:30Z'],
  ],
  [
    'a day of 25 hours there, whose second one o’clock is not another day',
    'America/St_Johns',
    '2026-11-01T04:30:00.000Z',
    ['2026-11-01T02:30Z', '2026-11-02T03:30Z', '2026-10-26T02:30Z', '2026-11-02T03:30Z'],
    ['2026-11-01T02:30Z', '2026-12-01T03:30Z'],
  ],
  [
    'a day of 23 and a half hours',
    'Australia/Lord_Howe',
    '2026-10-04T00:00:00.000Z',
    ['2026-10-03T13:30Z', '2026-10-04T13:00Z', '2026-09-27T13:30Z', '2026-10-04T13:00Z'],
    ['2026-09-30T13:30Z', '2026-10-31T13:00Z'],
  ],
  [
    'a day of 24 and a half hours',
    'Australia/Lord_Howe',
    '2027-04-04T00:00:00.000Z',
    ['2027-04-03T13:00Z', '2027-04-04T13:30Z', '2027-03-28T13:00Z', '2027-04-04T13:30Z'],
    ['2027-03-31T13:00Z', '2027-04-30T13:30Z'],
  ],
  [
    'three quarters of an hour, with clocks that change',
    'Pacific/Chatham',
    '2026-09-27T00:00:00.000Z',
    ['2026-09-26T11:15Z', '2026-09-27T10:15Z', '2026-09-20T11:15Z', '2026-09-27T10:15Z'],
    ['2026-08-31T11:15Z', '2026-09-30T10:15Z'],
  ],
] as const

for (const [name, zone, at, dayAndWeek, month] of cases) {
  t.test(name, async (t) => {
    t.strictSame(windowsAt(zone, at), [...dayAndWeek, ...month])
  })
}

const zones = [
  'UTC',
  'Europe/Berlin',
  'America/Havana',
  'America/Santiago',
  'Asia/Beirut',
  'Asia/Kolkata',
  'Asia/Kathmandu',
  'America/St_Johns',
  'Australia/Lord_Howe',
]

t.test('one window ends where the next one begins, through all of a year', async (t) => {
  for (const zone of zones) {
    let at = Date.UTC(2026, 0, 15)
    const windows = new Windows(zone, () => at)
    let before = windows.text.split(' ').map(Number)
    for (let day = 0; day < 370; day++) {
      at = before[1] ?? 0
      const next = windows.text.split(' ').map(Number)
      t.equal(next[0], before[1], `${zone} ${new Date(at).toISOString()}`)
      for (const i of [2, 4]) {
        const isSame = next[i] === before[i] && next[i + 1] === before[i + 1]
        if (!isSame) t.equal(next[i], before[i + 1], `${zone} ${i} ${new Date(at).toISOString()}`)
      }
      before = next
    }
  }
})

t.test('the clock learns what Redis says, at a border too', async (t) => {
  let now = Date.UTC(2026, 10, 30, 23, 59, 59)
  const windows = new Windows('UTC', () => now)
  t.match(windows.text, `${Date.UTC(2026, 10, 30)} ${Date.UTC(2026, 11, 1)} `)
  windows.learn(now + 2000)
  t.match(windows.text, `${Date.UTC(2026, 11, 1)} ${Date.UTC(2026, 11, 2)} `)
  windows.learn(now - 2000)
  now += 2999
  t.match(windows.text, `${Date.UTC(2026, 10, 30)} ${Date.UTC(2026, 11, 1)} `)
  now += 1
  t.match(windows.text, `${Date.UTC(2026, 11, 1)} ${Date.UTC(2026, 11, 2)} `)
})
