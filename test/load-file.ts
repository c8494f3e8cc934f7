import { writeFile } from 'node:fs/promises'
import t from 'tap'
import { loadFile } from '../src/load-file.ts'

const yaml = (key: string) =>
  `models: { m: { targets: [{ url: 'http://127.0.0.1:1/v1', key: '${key}' }] } }\n`
const silent = { write: () => undefined }
const io = { env: {}, stdout: silent, stderr: silent }

t.test('given contents are read in place of the files', async (t) => {
  const dir = t.testdir({ 'gateway.yaml': yaml('${file:key}'), key: 'first' })
  const file = `${dir}/gateway.yaml`
  const loaded = await loadFile(file, io)
  if ('problems' in loaded) throw new Error(JSON.stringify(loaded.problems))
  await writeFile(`${dir}/key`, 'second')
  await writeFile(file, 'broken')
  t.match(await loadFile(file, io), { problems: [{}] })
  const again = await loadFile(file, io, { given: loaded.contents })
  if ('problems' in again) throw new Error(JSON.stringify(again.problems))
  t.equal(again.config.models.get('m')?.targets[0]?.key, 'first')
  t.same(again.files, loaded.files)
})

t.test("an operator's own plugin comes with it", async (t) => {
  const dir = t.testdir({
    'gateway.yaml': `${yaml('k')}plugins: { ./mine.ts: {} }\n`,
    'mine.ts': `
      import { z } from 'tollgate/plugin'
      export const plugin = { name: 'mine', schema: z.strictObject({}), setup: () => ({}) }
    `,
  })
  t.match(await loadFile(`${dir}/gateway.yaml`, io), { ownPlugins: [{ name: 'mine' }] })
})
