// The views, in the order of the navigation. They are modules of the page like all others, and not loaded when they are
// first shown: a browser may remember for good that an import has failed.

import { open as keys } from './keys.js'
import { open as limits } from './limits.js'
import { open as overview } from './overview.js'
import { open as playground } from './playground.js'
import { open as transactions } from './transactions.js'
import { open as usage } from './usage.js'

/**
 * @typedef {object} View
 * @property {'overview' | 'keys' | 'usage' | 'transactions' | 'playground' | 'limits'} name
 * @property {(context: import('./main.js').Context, rest: string[]) => Node | Promise<Node>} open
 */

/** @type {readonly [View, ...View[]]} */
export const views = [
  { name: 'overview', open: overview },
  { name: 'keys', open: keys },
  { name: 'usage', open: usage },
  { name: 'transactions', open: transactions },
  { name: 'playground', open: playground },
  { name: 'limits', open: limits },
]
