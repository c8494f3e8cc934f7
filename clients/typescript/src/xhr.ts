// XMLHttpRequest with the interface of fetch: in a web page, only it reports how much of a body was sent.

export function sendByXhr(
  url: string,
  { method = 'GET', headers, body, signal }: RequestInit,
  onSent: (bytes: number) => void,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const xhr = new XMLHttpRequest()
    const leave = () => xhr.abort()
    xhr.open(method, url)
    new Headers(headers).forEach((value, name) => xhr.setRequestHeader(name, value))
    xhr.upload.onprogress = ({ loaded }) => onSent(loaded)
    xhr.onload = () => resolve(answerOf(xhr))
    xhr.onerror = () => reject(new TypeError('The network failed'))
    xhr.onabort = () => reject(signal?.reason as Error)
    xhr.onloadend = () => signal?.removeEventListener('abort', leave)
    signal?.throwIfAborted()
    signal?.addEventListener('abort', leave, { once: true })
    xhr.send(body as XMLHttpRequestBodyInit)
  })
}

function answerOf(xhr: XMLHttpRequest): Response {
  const { status, responseText } = xhr
  const headers = new Headers()
  for (const line of xhr.getAllResponseHeaders().split('\r\n')) {
    const [, name, value] = /^([^:]+): ?(.*)$/.exec(line) ?? []
    if (name && value !== undefined) headers.append(name, value)
  }
  const hasBody = status !== 204 && status !== 205 && status !== 304
  return new Response(hasBody ? responseText : null, { status, headers })
}
