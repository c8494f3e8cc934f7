// Makes docs/parameters.md from the table in src/chat/parameters.ts.

import { endpointNames } from '../src/config/endpoints.ts'
import { parameterRows } from '../src/chat/parameters.ts'
import type { ParameterRow, Way } from '../src/chat/parameters.ts'

const head = `# Parameters

Made from the table in src/chat/parameters.ts by \`node scripts/generate.ts\`; do not edit.

The parameters that a request's body may have at its top level, on \`/v1\` and in a message of a session. Any other parameter
is 400 \`unknown_parameter\`, because on some backend it could cost more than the client pays for, or reach other systems. The
gateway's operator can allow more parameters, model by model:

\`\`\`yaml
models:
  m:
    targets: [{ url: http://127.0.0.1:8000/v1 }]
    extra_parameters: [chat_template, prompt_logprobs] # or ['*'] for all
    remote_media: [images.example.com, '*.cdn.example.com']
\`\`\`

The gateway neither counts nor bounds parameters that are allowed in this way, so set the model's price for them. Use \`'*'\`
only for backends that may get any parameter from any customer. It removes no bound of the tables
_The gateway's own_ and _Bounded_, and allows nothing of the table _Never_.

A parameter that is null counts as absent; so does false where the operator's permission is needed. A key that differs from
one of these names only in case or escapes is 400 \`invalid_json\`, because some backends ignore case; so is a key that stands
twice in an object that the gateway reads. \`tollgate doctor\` reports which of these parameters your targets take.
`

const sections: readonly (readonly [Way, string, string])[] = [
  ['gateway', "The gateway's own", 'Read, checked, and written by the gateway.'],
  ['bounded', 'Bounded', 'The gateway passes these on as they are, within these bounds.'],
  [
    'passes',
    'Let through',
    'The gateway passes these on byte for byte. A backend may not know all of them.',
  ],
  [
    'word',
    "With the operator's permission",
    "Only where the model's `extra_parameters` has the name, or `'*'`.",
  ],
  ['never', 'Never', 'Refused even if `extra_parameters` has the name.'],
]

const media = `## Media

An image, a film, sound or a file in a message, an input or a document is a data URL (\`data:image/png;base64,…\`), or base64 if
the API defines it so (\`input_audio.data\`, \`file.file_data\`). The gateway passes an address on only if it is \`https\` and its
host is in the model's \`remote_media\`: a host as it stands in a URL, with its port if that is not 443, or \`*.example.com\` for
all hosts below \`example.com\` (not for \`example.com\` itself). Any other address is 400 \`invalid_parameter\`: other schemes,
user names, spaces, upper case, and hosts that are numbers unless they are listed as such. The backend resolves the name and
may follow redirects: list only hosts that lead nowhere inside your network. A session takes data URLs, uploaded files, and
addresses of images under the same rule.

In parts of messages, keys that OpenAI does not have need the operator's permission by their own name, such as \`uuid\` and
\`content_hash\` (another account's image in the backend's cache), \`file_id\` (a file under the credential that all accounts
share) or \`cache_control\` (a separate price for cached text). So do parts of other types, such as \`image_embeds\`.

## A cache of prompts

Backends keep the beginnings of prompts, and are faster when the same beginning comes again. A client that guesses the
beginning of another account's prompt can see this in \`cached_tokens\`, in llama.cpp's \`timings.cache_n\`, or in the time to
the first token. vLLM and SGLang separate prompts with different salts: with \`cache_salt: true\` on a target, the gateway sends
one salt for each account, an HMAC that reveals nothing about the account. Other backends have no salts. For these, use a
backend for each tenant, or switch the cache off (llama.cpp: \`--no-cache-prompt\`; vLLM: \`--no-enable-prefix-caching\`).
`

/** Returns unformatted Markdown. */
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
