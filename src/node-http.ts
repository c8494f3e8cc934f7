// Node's http module. An `import` of 'node:http' reads every export of it, and reading `WebSocket` loads the whole of
// undici: 0.1 s of the start of each process, and 2.5 MB while it is idle. This way of loading reads nothing.

export const http = process.getBuiltinModule('node:http')
