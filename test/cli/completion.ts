import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { runPython } from '../fixtures/csv.ts'
import { runCli } from '../fixtures/cli.ts'
import { tempDir } from '../fixtures/temp-dir.ts'

/** Types into a bash with a terminal, and prints what the terminal shows until the word END comes from the bash itself. */
const typing = `
import os, pty, select, sys
child, terminal = pty.fork()
if child == 0:
    os.environ.update(TERM="dumb", PS1="")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
os.write(terminal, sys.stdin.buffer.read())
seen = b""
while b"\\nEND" not in seen and select.select([terminal], [], [], 60)[0]:
    try:
        seen += os.read(terminal, 65536)
    except OSError:
        break
os.kill(child, 9)
os.waitpid(child, 0)
print(seen.decode())
`

t.test('a bash completes what is typed', async (t) => {
  const file = join(await tempDir(t), 'completion')
  await writeFile(file, (await runCli(['completion', 'bash'])).out)
  const typed = [
    `source ${file}; tollgate() { printf '<%s>' "$@"; }`,
    'tollgate acc\tcre\t--exter\tx --no-such\t',
    `tollgate check ${file.slice(0, -3)}\t`,
    "printf '\\nE%s' ND",
    '',
  ]
  const shown = await runPython(typing, typed.join('\n'))
  t.match(shown, '<accounts><create><--external-id><x><--no-such>')
  t.match(shown, `<check><${file}>`)
})

t.test('every command is in the script of every shell', async (t) => {
  const { out: help } = await runCli(['help'])
  const names = [...help.matchAll(/^ {2}([a-z]+)/gm)].map(([, name = '']) => name)
  for (const shell of ['bash', 'zsh', 'fish']) {
    const { code, out } = await runCli(['completion', shell])
    t.equal(code, 0)
    for (const name of names) t.match(out, name, `${shell}: ${name}`)
  }
})

t.test('another shell is wrong use', async (t) => {
  t.match(await runCli(['completion', 'csh']), { code: 2, err: /one of bash, zsh, fish/ })
  t.match(await runCli(['completion', 'constructor']), { code: 2 })
  t.match(await runCli(['completion']), { code: 2, err: /SHELL is missing/ })
})
