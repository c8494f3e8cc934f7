import t from 'tap'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { openSync, readFileSync, truncateSync } from 'node:fs'
import { openLogOutput } from '../src/log-output.ts'
import type { Teardown } from './fixtures/teardown.ts'
import { soon } from './fixtures/until.ts'

t.test('written lines are in the file when it is closed, in order', async (t) => {
  const file = `${t.testdir()}/log`
  const output = openLogOutput(openSync(file, 'w'))
  for (let i = 0; i < 20_000; i++) output.write(`line ${i}\n`)
  await output.close()
  const lines = readFileSync(file, 'utf8').split('\n')
  t.equal(lines.length, 20_001)
  t.equal(lines[19_999], 'line 19999')
  t.equal(output.dropped, 0)
})

const url = new URL('../src/log-output.ts', import.meta.url)

/** A process that writes this many lines of 1 KiB to its stdout, and reports how many were dropped. */
function writer(t: Teardown, lines: number) {
  const script = `
    const { openLogOutput } = await import(${JSON.stringify(url.href)})
    const output = openLogOutput()
    for (let i = 0; i < ${lines}; i++) {
      output.write('x'.repeat(1023) + '\\n')
      if (i % 100 === 0) await new Promise(setImmediate)
    }
    await output.close()
    console.error(output.dropped)
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}

t.test('a reader that takes nothing costs lines, not memory, and not the exit', async (t) => {
  const child = writer(t, 40_000)
  const told = text(child.stderr)
  const [code] = (await soon(once(child, 'exit'))) as [number | null]
  t.equal(code, 0)
  const dropped = Number(await told)
  t.ok(dropped > 20_000 && dropped < 40_000, `${dropped} dropped`)
})

t.test('a reader that reads everything gets every line', async (t) => {
  const child = writer(t, 3000)
  const told = text(child.stderr)
  const got = await text(child.stdout)
  t.equal(got.length, 3000 * 1024)
  t.equal(await told, '0\n')
})

t.test('a reader that has gone only costs lines', async (t) => {
  const child = writer(t, 3000)
  child.stdout.destroy()
  const told = text(child.stderr)
  const [code] = (await soon(once(child, 'exit'))) as [number | null]
  t.equal(code, 0)
  t.ok(Number(await told) > 2000, 'all are counted, not only those of the first write')
})

t.test('a disk that was full gets lines again when it has room', async (t) => {
  const script = `
    const { openLogOutput } = await import(${JSON.stringify(url.href)})
    const output = openLogOutput()
    for (let i = 0; i < 300; i++) output.write('x'.repeat(1023) + '\\n')
    while (output.dropped === 0) await new Promise(setImmediate)
    console.error('full')
    for await (const _ of process.stdin);
    const { dropped } = output
    output.write('again\\n')
    await output.close()
    console.error(output.dropped - dropped)
  `
  const file = `${t.testdir()}/log`
  // No file may have more than 100 KiB. The signal at that limit would end a process with tap's own code.
  const limited = 'ulimit -f 200; exec env -i "$0" --input-type=module -e "$1"'
  const child = spawn('sh', ['-c', limited, process.execPath, script], {
    stdio: ['pipe', openSync(file, 'a'), 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const { stdin, stderr } = child
  if (!stdin || !stderr) throw new TypeError('pipes were asked for')
  const [told] = (await once(stderr, 'data')) as [Buffer]
  t.equal(told.toString(), 'full\n')
  truncateSync(file)
  const rest = text(stderr)
  stdin.end()
  t.equal(await rest, '0\n')
  t.ok(readFileSync(file, 'utf8').endsWith('\nagain\n'))
})
