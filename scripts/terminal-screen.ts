// Draws what a terminal shows over time as an SVG that moves: each line of the screen from when it is there until it changes.

export const columns = 112
export const rows = 34
/** Pixels. */
const [cellWidth, cellHeight, pad] = [8, 18, 14]
/** After the last output, before it begins anew. */
const restMs = 6000
/** The colours of ANSI that the commands use; others are drawn as text. */
const colours = ['#8b949e', '#ff7b72', '#7ee787', '#e3b341', '#79c0ff', '#d2a8ff', '#76e3ea']

export interface Output {
  readonly text: string
  /** Milliseconds since the output before. */
  readonly afterMs: number
}

/** What is used of @xterm/headless. */
export interface Xterm {
  readonly Terminal: new (options: object) => Terminal
}

interface Terminal {
  write(text: string, done: () => void): void
  readonly buffer: { readonly active: Screen }
}

interface Screen {
  /** The line at the top of the screen: how far it has scrolled. */
  readonly baseY: number
  readonly length: number
  getLine(y: number): { getCell(x: number): Cell | undefined } | undefined
}

interface Cell {
  getChars(): string
  getFgColor(): number
  isFgPalette(): boolean
  isDim(): number
  isBold(): number
}

/** A line of the screen as it is for a time. */
interface Shown {
  readonly y: number
  readonly drawn: string
  readonly fromMs: number
  untilMs?: number
}

export async function drawScreen(outputs: readonly Output[], { Terminal }: Xterm): Promise<string> {
  const terminal = new Terminal({ cols: columns, rows, scrollback: 1000, allowProposedApi: true })
  const all: Shown[] = []
  const now = new Map<number, Shown>()
  const scrolls: { readonly atMs: number; readonly lines: number }[] = []
  let atMs = 0
  for (const { text, afterMs } of outputs) {
    atMs += afterMs
    await new Promise<void>((done) => terminal.write(text, done))
    const screen = terminal.buffer.active
    for (let y = screen.baseY; y < screen.length; y++) {
      const drawn = drawLine(screen, y)
      const before = now.get(y)
      if ((before?.drawn ?? '') === drawn) continue
      if (before) before.untilMs = atMs
      const shown = { y, drawn, fromMs: atMs }
      now.set(y, shown)
      if (drawn !== '') all.push(shown)
    }
    if (screen.baseY !== (scrolls.at(-1)?.lines ?? 0)) scrolls.push({ atMs, lines: screen.baseY })
  }
  return svgOf(
    all.filter(({ fromMs, untilMs }) => untilMs !== fromMs),
    scrolls,
    atMs + restMs,
  )
}

/** Runs of one look, as tspans; empty for an empty line. */
function drawLine(screen: Screen, y: number): string {
  const runs: { look: string; x: number; text: string }[] = []
  for (let x = 0; x < columns; x++) {
    const cell = screen.getLine(y)?.getCell(x)
    const text = cell?.getChars() || ' '
    const look = cell ? lookOf(cell) : ''
    const run = runs.at(-1)
    if (run?.look === look) run.text += text
    else runs.push({ look, x, text })
  }
  return runs
    .map((run) => ({ ...run, text: run.text.trimEnd() }))
    .filter(({ text }) => text !== '')
    .map(({ look, x, text }) => {
      const length = `textLength="${text.length * cellWidth}"`
      return `<tspan x="${x * cellWidth}" ${length}${look}>${escaped(text)}</tspan>`
    })
    .join('')
}

function lookOf(cell: Cell): string {
  const colour = cell.isFgPalette() ? colours[cell.getFgColor() % 8] : undefined
  const fill = colour ?? (cell.isDim() ? colours[0] : undefined)
  return `${fill ? ` fill="${fill}"` : ''}${cell.isBold() ? ' font-weight="bold"' : ''}`
}

function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

function svgOf(
  all: readonly Shown[],
  scrolls: readonly { readonly atMs: number; readonly lines: number }[],
  lengthMs: number,
): string {
  const [width, height] = [columns * cellWidth, rows * cellHeight]
  const percent = (ms: number) => `${((100 * ms) / lengthMs).toFixed(2)}%`
  const names = new Map<string, string>()
  const nameOf = ({ fromMs, untilMs }: Shown) => {
    const gone = untilMs === undefined ? '' : `${percent(untilMs)}{visibility:hidden}`
    const frames = `0%{visibility:hidden}${percent(fromMs)}{visibility:visible}${gone}`
    const name = names.get(frames) ?? `t${names.size}`
    names.set(frames, name)
    return name
  }
  const lines = all.map((shown) => {
    const end = shown.untilMs === undefined ? '' : ' class="gone"'
    const at = `y="${(shown.y + 1) * cellHeight - 5}" style="animation-name:${nameOf(shown)}"`
    return `<text${end} ${at}>${shown.drawn}</text>`
  })
  const moved = (count: number) => `transform:translateY(${-count * cellHeight}px)`
  const scroll = scrolls.map(({ atMs, lines }) => `${percent(atMs)}{${moved(lines)}}`).join('')
  const style = [
    'text{white-space:pre}',
    `text,#screen{animation:${lengthMs}ms step-end infinite}`,
    '.gone{visibility:hidden}',
    `#screen{animation-name:scroll;${moved(scrolls.at(-1)?.lines ?? 0)}}`,
    `@keyframes scroll{0%{${moved(0)}}${scroll}}`,
    ...[...names].map(([frames, name]) => `@keyframes ${name}{${frames}}`),
    '@media(prefers-reduced-motion:reduce){text,#screen{animation:none}}',
  ]
  const size = `viewBox="0 0 ${width + 2 * pad} ${height + 2 * pad}"`
  const font = 'font-family="ui-monospace,Menlo,Consolas,monospace" font-size="13" fill="#e6edf3"'
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" ${size} ${font}>`,
    '<title>The first minute in a terminal, recorded by scripts/terminal-picture.ts</title>',
    `<style>${style.join('\n')}</style>`,
    '<rect width="100%" height="100%" rx="8" fill="#0d1117"/>',
    `<svg x="${pad}" y="${pad}" width="${width}" height="${height}"><g id="screen">`,
    ...lines,
    '</g></svg>',
    '</svg>',
    '',
  ].join('\n')
}
