// Counts a prompt with the tokenizer, for a charge that no backend reported. What is no text (images, sound, token ids)
// makes it the estimate, which is always the upper bound. Asked after the answer, never before.

import { countTokens } from './count.ts'
import type { PromptView } from './estimate.ts'

/** Role and separators of a message, as most chat templates write them. */
const messageTokens = 4
/** A second of the tokenizer's time at the worst. */
const sampledChars = 64_000
const samples = 64

export async function countPrompt(view: PromptView, estimate: number): Promise<number> {
  const texts: string[] = []
  const messages = Array.isArray(view.messages) ? view.messages : []
  if (!readTexts([view.messages, view.prompt, view.input], texts) || texts.length === 0) {
    return estimate
  }
  const counted = (await countLong(texts.join('\n'))) + messages.length * messageTokens
  return Math.min(estimate, Math.max(1, counted))
}

/** A sample of it where it is long: whoever leaves a request of 32 MB must not keep the tokenizer busy for minutes. */
async function countLong(text: string): Promise<number> {
  if (text.length <= sampledChars) return countTokens(text)
  const stride = text.length / samples
  const sample = Array.from({ length: samples }, (_, i) => {
    const from = Math.floor(i * stride)
    return text.slice(from, from + sampledChars / samples)
  })
  return Math.ceil(((await countTokens(sample.join(''))) * text.length) / sampledChars)
}

/** All strings in it. False where something in it costs what no tokenizer knows. */
function readTexts(value: unknown, texts: string[]): boolean {
  if (typeof value === 'string') return texts.push(value) > 0
  if (typeof value === 'number') return false
  if (typeof value !== 'object' || value === null) return true
  if ('type' in value && typeof value.type === 'string' && !isText.has(value.type)) return false
  return Object.values(value).every((item) => readTexts(item, texts))
}

/** Content parts and tool calls that are made of text. */
const isText = new Set(['text', 'function', 'refusal'])
