// Session streams through parsers of others: OpenAI's package, the AI SDK, eventsource-parser, Node's EventSource.
// Comments stand between all frames; data has several lines, and several bytes a character. Those that `npm test` can't
// have, OpenAI's package for Python and a browser, read the same in `npm run try:parsers`.

import t from 'tap'
import { readWithEventSource } from '../fixtures/parsers/event-source.ts'
import { nodeReaders } from '../fixtures/parsers/readers.ts'
import { reconnect } from '../fixtures/parsers/reconnecting.ts'
import { commentsIn, endings, leastComments, openStage, starts } from '../fixtures/parsers/stage.ts'

t.setTimeout(120_000)
// They mostly wait for comments, so all run at once, each with a stage of its own.
t.jobs = Object.keys(nodeReaders).length + 1
const atOnce = { buffered: true }

for (const [name, read] of Object.entries(nodeReaders)) {
  const what = `${name} reads a stream from its start and from the middle, to each end`
  t.test(what, atOnce, async (t) => {
    const stage = await openStage(t)
    for (const ending of endings) {
      for (const start of starts) {
        const play = await stage.play(ending)
        const ask = await play.ask(start)
        t.same(await read(ask), play.expectedOf(start), `${start}, ${ending}`)
        const least = leastComments[start]
        t.ok(commentsIn(play.passageOf(ask)) >= least, `with ${least} comments in it`)
        await play.end()
      }
    }
  })
}

const itself = "Node's EventSource goes on where it was left, and stops behind the end"
t.test(itself, atOnce, async (t) => {
  const stage = await openStage(t)
  for (const ending of endings) {
    const play = await stage.play(ending)
    await play.begin()
    const { pauseMs: _pauseMs, ...saw } = await reconnect(play, {
      ask: play.stream(),
      read: ({ url, path }) => readWithEventSource(url + path),
    })
    t.same(saw, play.expectedOfReconnected(), ending)
    const streams = play.proxy.passages.filter(({ text }) => /^id: /m.test(text))
    t.ok(
      streams.every(({ text }) => /^retry: 1000$/m.test(text)),
      'each says when to come back',
    )
    await play.end()
  }
})
