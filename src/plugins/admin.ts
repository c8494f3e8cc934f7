// The operator's API on its own listener (operate.md §3): accounts, keys, money, what is configured. Every route of it
// needs the admin token, and none answers a web page: those send an Origin, or a Host of their own choosing.

import { z } from '../config/schema.ts'
import type { Plugin } from '../plugin.ts'
import { accountRoutes } from './admin-accounts.ts'
import { createDoorkeeper } from './admin-door.ts'
import { keyRoutes } from './admin-keys.ts'
import { moneyRoutes } from './admin-money.ts'
import { overviewRoutes } from './admin-overview.ts'

const schema = z.strictObject({})

export const admin: Plugin<z.infer<typeof schema>> = {
  name: 'admin',
  schema,
  setup(gateway) {
    const check = createDoorkeeper(gateway.config.admin)
    return {
      routes: [
        ...accountRoutes(gateway),
        ...keyRoutes(gateway),
        ...moneyRoutes(gateway),
        ...overviewRoutes(gateway),
      ],
      begin(x) {
        return x.route.access === 'admin-token' ? { check: () => check(x.headers) } : {}
      },
    }
  },
}
