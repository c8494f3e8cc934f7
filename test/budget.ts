// Budgets as rows have them, and as they are shown.

import t from 'tap'
import { budgetText, keyWindow, parseBudget, parseWindow } from '../src/budget.ts'

t.test('a budget shows its window only while it runs', async (t) => {
  const text = budgetText({ tokens: 100, every: 'week' })
  t.equal(text, '100 week')
  const idle = { tokens: 100, every: 'week', used: 0, renews_at: null }
  t.same(parseBudget(text, 'week 1000 9999 30', 9998), { ...idle, used: 30, renews_at: 9 })
  t.same(parseBudget(text, 'week 1000 9999 30', 9999), idle, 'it has ended')
  t.same(parseBudget(text, 'day 1000 9999 30', 9998), idle, 'it is of the budget before')
  t.same(parseBudget(text, '', 9998), idle)
  t.equal(parseBudget('', 'week 1000 9999 30', 9998), undefined, 'it was taken away')
  t.equal(parseBudget(undefined, undefined, 9998), undefined)
})

t.test('rows: no budget is an empty text, and each key has its own window', async (t) => {
  t.equal(budgetText(null), '')
  t.equal(keyWindow('key_a', { every: 'day' }), 'window:key_a:day')
  t.equal(parseWindow(undefined), undefined)
  t.same(parseWindow('day 1 2 3'), { every: 'day', since: 1, endsMs: 2, used: 3 })
})
