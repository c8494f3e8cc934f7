import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import t from 'tap'
import { ensureProgram } from '../../../scripts/apt.ts'
import { fishScript } from '../../../src/cli/completion/fish.ts'
import { completedCommands } from '../../fixtures/completed.ts'
import { tempDir } from '../../fixtures/temp-dir.ts'

const run = promisify(execFile)
await ensureProgram('fish')
const home = await tempDir(t)

/** What a real fish offers at the end of this line, in a folder with one file. */
async function offered(line: string): Promise<readonly string[]> {
  const script = `${fishScript(completedCommands)}\ncd $argv[2]; complete -C $argv[1]`
  const folder = t.testdir({ 'one.yaml': '' })
  const env = { ...process.env, HOME: home, XDG_CONFIG_HOME: home, XDG_DATA_HOME: home }
  const { stdout } = await run('fish', ['--no-config', '-c', script, line, folder], { env })
  return stdout.trimEnd().split('\n')
}

t.test('fish offers commands and options with their help, and names of files', async (t) => {
  t.same(await offered('tollgate '), ["check\tthe file's problems: all", 'keys\tcreate, list'])
  t.same(await offered('tollgate keys '), ['create\tmake a key', 'list\tall keys'])
  t.same(await offered('tollgate help c'), ['check\ta command'])
  t.same(await offered('tollgate keys create --n'), ['--name\ta name', '--new\ta switch'])
  t.same(await offered('tollgate keys list --n'), [''])
  t.same(await offered('tollgate check one'), ['one.yaml'])
  t.same(await offered('tollgate check --config one'), ['one.yaml'])
  t.same(await offered('tollgate check --p'), ["--print\tit's: $(false) `false` \\"])
})
