// A plugin as an operator would write one: replaces words in whatever the models answer, streamed or not.
// It sees one event at a time: a word that a model sends in two pieces passes.

import { z } from 'tollgate/plugin'
import type { Plugin } from 'tollgate/plugin'

const schema = z.strictObject({
  words: z.array(z.string().regex(/^\w+$/)).min(1).describe('Words that clients never get to see.'),
})

export const plugin: Plugin<z.infer<typeof schema>> = {
  name: 'redact',
  schema,
  setup(_gateway, { words }) {
    const pattern = new RegExp(`\\b(${words.join('|')})\\b`, 'gi')
    return {
      begin() {
        return {
          event(event) {
            event.data = event.data.replace(pattern, (word) => '*'.repeat(word.length))
          },
        }
      },
    }
  },
}
