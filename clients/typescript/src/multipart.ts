// The text before a file in a multipart/form-data body, written as browsers write it.

interface FormHead {
  readonly boundary: string
  readonly fields: readonly (readonly [name: string, value: string])[]
  readonly file: { readonly filename: string; readonly type: string }
}

export function headOf({ boundary, fields, file }: FormHead): string {
  const parts = fields.map(
    ([name, value]) => `--${boundary}\r\n${disposition(name)}\r\n\r\n${value}\r\n`,
  )
  const head = `${disposition('file')}; filename="${escaped(file.filename)}"`
  return `${parts.join('')}--${boundary}\r\n${head}\r\nContent-Type: ${lineOf(file.type)}\r\n\r\n`
}

function disposition(name: string): string {
  return `Content-Disposition: form-data; name="${escaped(name)}"`
}

const escapes: Readonly<Record<string, string>> = { '"': '%22', '\r': '%0D', '\n': '%0A' }

function escaped(text: string): string {
  return text.replace(/["\r\n]/g, (letter) => escapes[letter] ?? '')
}

/** A type with a line end in it would add a header. */
function lineOf(text: string): string {
  return text.replace(/[\r\n]+/g, ' ')
}
