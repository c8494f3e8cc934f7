// Which backends of a model to ask, in which order: the lowest priority first, within one by weight, at random.
// Decides nothing about when to go on to the next one.

import type { Model, Target } from '../config/config.ts'

/** All targets, each once, in the order in which they are to be tried. */
export function candidates(model: Model, random: () => number = Math.random): Target[] {
  if (model.targets.length === 1) return [...model.targets]
  const tiers = [...new Set(model.targets.map((target) => target.priority))].sort((a, b) => a - b)
  return tiers.flatMap((tier) =>
    shuffled(
      model.targets.filter((target) => target.priority === tier),
      random,
    ),
  )
}

export function chooseTarget(model: Model, random: () => number = Math.random): Target {
  const [first] = candidates(model, random)
  if (!first) throw new Error(`model ${model.id} has no target`)
  return first
}

/** Targets are drawn one after the other, each with a chance by its weight among those left. A weight of 0 is drawn last. */
function shuffled(targets: readonly Target[], random: () => number): Target[] {
  const left = [...targets]
  const order: Target[] = []
  while (left.length > 0) {
    let point = random() * left.reduce((sum, { weight }) => sum + weight, 0)
    const found = left.findIndex(({ weight }) => (point -= weight) < 0)
    order.push(...left.splice(Math.max(0, found), 1))
  }
  return order
}
