// Shows a new key, once, with lines that use it: curl, OpenAI's package for Python and for Node.

import { announce, h, icon } from './dom.js'
import { texts } from './texts.js'

const t = texts.newKey

/**
 * @param {import('./shapes.js').Key} made
 * @param {{ model: string | undefined, close: () => void }} options `model`: for a key that may use all of them
 */
export function newKey(made, { model: any, close }) {
  const key = made.key ?? ''
  const model = made.models.find((id) => id !== '*') ?? any ?? t.anyModel
  const secret = h('code', { tabindex: '0', 'aria-label': t.key }, key)
  return h(
    'div',
    { class: 'new-key' },
    h('div', { class: 'notice warn' }, h('p', {}, t.once)),
    h('div', { class: 'secret' }, secret, copyButton(secret, true)),
    tabs(samples(key, model)),
    h('footer', {}, h('button', { type: 'button', class: 'primary', onclick: close }, t.done)),
  )
}

/**
 * @param {HTMLElement} source
 * @param {boolean} [isFirst]
 */
function copyButton(source, isFirst = false) {
  const label = h('span', {}, t.copy)
  const copy = async () => {
    label.textContent = await copied(source)
    announce(label.textContent)
    setTimeout(() => (label.textContent = t.copy), 2000)
  }
  return h(
    'button',
    {
      type: 'button',
      class: isFirst ? 'primary copy' : 'copy',
      autofocus: isFirst,
      onclick: () => void copy(),
    },
    icon('copy'),
    label,
  )
}

/**
 * Without the clipboard the text is selected, for a copy by hand.
 * @param {HTMLElement} source
 */
async function copied(source) {
  try {
    await navigator.clipboard.writeText(source.textContent ?? '')
    return t.copied
  } catch {
    getSelection()?.selectAllChildren(source)
    return t.notCopied
  }
}

/**
 * @param {string} key
 * @param {string} model
 * @returns {{ name: string, text: string }[]}
 */
function samples(key, model) {
  const base = `${location.origin}/v1`
  const body = JSON.stringify({
    model,
    messages: [{ role: 'user', content: 'Hello!' }],
  }).replaceAll("'", `'\\''`)
  return [
    {
      name: 'curl',
      text: `curl ${base}/chat/completions \\\n  -H "Authorization: Bearer ${key}" \\\n  -H "Content-Type: application/json" \\\n  -d '${body}'`,
    },
    {
      name: 'Python',
      text: `from openai import OpenAI\n\nclient = OpenAI(base_url="${base}", api_key="${key}")\nanswer = client.chat.completions.create(\n    model="${model}",\n    messages=[{"role": "user", "content": "Hello!"}],\n)\nprint(answer.choices[0].message.content)`,
    },
    {
      name: 'TypeScript',
      text: `import OpenAI from 'openai'\n\nconst client = new OpenAI({ baseURL: '${base}', apiKey: '${key}' })\nconst answer = await client.chat.completions.create({\n  model: '${model}',\n  messages: [{ role: 'user', content: 'Hello!' }],\n})\nconsole.log(answer.choices[0]?.message.content)`,
    },
  ]
}

/**
 * Tabs as in the ARIA Authoring Practices: the arrow keys move between the tabs, and the Tab key reaches only the
 * chosen one.
 * @param {readonly { name: string, text: string }[]} shown
 */
function tabs(shown) {
  const panel = h('div', { role: 'tabpanel', class: 'sample', id: 'sample' })
  const buttons = shown.map(({ name }, i) =>
    h(
      'button',
      {
        type: 'button',
        role: 'tab',
        'aria-controls': 'sample',
        onclick: () => choose(i),
        onkeydown: (/** @type {KeyboardEvent} */ event) => move(event, i),
      },
      name,
    ),
  )
  /** @param {number} index */
  function choose(index) {
    buttons.forEach((button, i) => {
      button.setAttribute('aria-selected', String(i === index))
      button.tabIndex = i === index ? 0 : -1
    })
    const text = shown[index]?.text ?? ''
    const code = h('code', {}, text)
    panel.replaceChildren(h('pre', { tabindex: '0' }, code), copyButton(code))
    panel.setAttribute('aria-label', shown[index]?.name ?? '')
  }
  /** @param {KeyboardEvent} event @param {number} index */
  function move(event, index) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (step === undefined) return
    const next = (index + step + shown.length) % shown.length
    choose(next)
    buttons[next]?.focus()
  }
  choose(0)
  return h('div', {}, h('div', { role: 'tablist', 'aria-label': t.use }, buttons), panel)
}
