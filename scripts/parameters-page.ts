// docs/parameters.md, from the table in src/chat/parameters.ts.

import { endpointNames } from '../src/config/endpoints.ts'
import { parameterRows } from '../src/chat/parameters.ts'
import type { ParameterRow, Way } from '../src/chat/parameter-row.ts'

const head = `# Parameters

Made from the table in src/chat/parameters.ts by \`node scripts/generate.ts\`; do not edit.

What may stand at the top of a request's body, on \`/v1\` and on a message of a session alike. Everything else is 400
\`unknown_parameter\`: on some backend an unknown word costs more than it pays for, or reaches what it must not. The
operator of the gateway can let more through, model by model:

\`\`\`yaml
models:
  m:
    targets: [{ url: http://127.0.0.1:8000/v1 }]
    extra_parameters: [chat_template, prompt_logprobs] # or ['*'] for all
    remote_media: [images.example.com, '*.cdn.example.com']
\`\`\`

What is let through so is neither counted nor bounded: price the model for it. \`'*'\` is for backends that you trust with
every word of every customer. It lifts no bound of the first two tables, and lets nothing of the last one through.

Null is as good as absent; where the operator's word is needed, false asks for nothing. A key that differs from one of these names only in case or escapes is 400
\`invalid_json\`, since some backends match keys without case; so is a key that stands twice in an object that the gateway
looks into. Which of these your targets take, \`tollgate doctor\` tells.
`

const sections: readonly (readonly [Way, string, string])[] = [
  ['gateway', "The gateway's own", 'Read, checked, and written by the gateway.'],
  ['bounded', 'Bounded', 'Go to the backend as they are, within these bounds.'],
  [
    'passes',
    'Let through',
    'Go to the backend byte for byte. Whether it knows them is its own matter.',
  ],
  [
    'word',
    "With the operator's word",
    "Only where the model's `extra_parameters` has the name, or `'*'`.",
  ],
  ['never', 'Never', 'Not even with the operator’s word.'],
]

const media = `## Media

An image, a film, sound or a file in a message, an input or a document is a data URL (\`data:image/png;base64,…\`), or base64 where
the API has it so (\`input_audio.data\`, \`file.file_data\`). An address is passed on only if it is \`https\` and its host is in
the model's \`remote_media\`: a host as it stands in a URL, with its port where that is not 443, or \`*.example.com\` for
all below one (not for \`example.com\` itself). Everything else is 400 \`invalid_parameter\`: other schemes, user names, spaces, upper case,
hosts that are numbers unless listed so. The backend resolves the name and follows what it follows: list only hosts that
lead nowhere inside your network. A session takes data URLs and uploaded files alone.

In parts of messages other keys than OpenAI's take the operator's word by their own name, such as \`uuid\` and \`content_hash\`
(another account's image in the backend's cache), \`file_id\` (a file under the credential that all share) or \`cache_control\`
(a price for what is cached); and so do parts of other types, such as \`image_embeds\`.

## A cache of prompts

Backends keep the beginnings of prompts, and are faster where one comes again. Whoever guesses the beginning of another
account's prompt can see that in \`cached_tokens\`, in llama.cpp's \`timings.cache_n\`, or in the time to the first token.
vLLM and SGLang keep apart what has different salts: \`cache_salt: true\` on a target sends one for each account, an HMAC that
tells nothing of the account. Other backends have no such thing. What can be done there: a backend for each tenant, or no
cache (llama.cpp: \`--no-cache-prompt\`; vLLM: \`--no-enable-prefix-caching\`).
`

/** Markdown, to be formatted. */
export function parametersPage(): string {
  const parts = sections.map(([way, title, text]) => `## ${title}\n\n${text}\n\n${tableOf(way)}`)
  return [head, ...parts, media].join('\n')
}

function tableOf(way: Way): string {
  const rows = parameterRows.filter((row) => row.way === way).map(lineOf)
  return `| parameters | where | why |\n| --- | --- | --- |\n${rows.join('\n')}\n`
}

function lineOf({ names, endpoints, why }: ParameterRow): string {
  const where = endpoints.length === endpointNames.length ? 'everywhere' : endpoints.join(', ')
  return `| ${names.map((name) => `\`${name}\``).join(', ')} | ${where} | ${why.replaceAll('|', '\\|')} |`
}
