// The page for a person whom the identity provider has sent back while too many others come. An error of JSON is for
// programs, and the account page would lose what the person has brought. Works without a script.

import type { GatewayError } from '../../errors.ts'
import type { Answer } from '../../exchange.ts'

/** With the status of the error, and its time in the headers that an error has. */
export function waitPage({ status, retryAfterMs = 1000 }: GatewayError): Answer {
  const seconds = Math.ceil(retryAfterMs / 1000)
  const wait = seconds === 1 ? 'a second' : `${seconds} seconds`
  const body = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1" />
    <meta name="color-scheme" content="light dark" />
    <title>Please wait</title>
    <link rel="stylesheet" href="/account/style.css" />
    <link rel="stylesheet" href="/account/frame.css" />
    <link rel="stylesheet" href="/account/parts.css" />
    <link rel="stylesheet" href="/account/narrow.css" />
  </head>
  <body>
    <main class="alone">
      <div class="panel sign-in">
        <h1>Please wait</h1>
        <p>Too many log-ins come at the moment. Wait ${wait}, then load this page again.</p>
        <p><a href="/account">Back</a></p>
      </div>
    </main>
  </body>
</html>
`
  return {
    status,
    headers: {
      'Content-Type': 'text/html; charset=utf-8',
      'Cache-Control': 'no-store',
      'Retry-After': String(seconds),
      'retry-after-ms': String(Math.ceil(retryAfterMs)),
    },
    body,
  }
}
