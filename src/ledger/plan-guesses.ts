// Which plan an account was on when last seen: admit needs the plan's limits in the same call that reads the plan.
// A wrong guess costs one more call. Bounded: the guesses that were unused for longest are dropped first.

const maxAccounts = 10_000

export interface PlanGuesses {
  get(ref: string): string
  set(ref: string, plan: string): void
}

export function createPlanGuesses(): PlanGuesses {
  const plans = new Map<string, string>()
  const set = (ref: string, plan: string) => {
    plans.delete(ref)
    plans.set(ref, plan)
    if (plans.size <= maxAccounts) return
    for (const oldest of plans.keys()) {
      plans.delete(oldest)
      return
    }
  }
  return {
    get(ref) {
      const plan = plans.get(ref)
      if (plan === undefined) return 'default'
      set(ref, plan)
      return plan
    },
    set,
  }
}
