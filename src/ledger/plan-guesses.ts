// Which plan an account was on when last seen: admit.lua needs the plan's limits in the same call that reads the plan. A
// wrong guess costs one more call.

/** The guesses that were unused for longest are dropped first. */
const maxAccounts = 10_000

export function createPlanGuesses() {
  const plans = new Map<string, string>()
  const set = (ref: string, plan: string) => {
    plans.delete(ref)
    plans.set(ref, plan)
    if (plans.size > maxAccounts) plans.delete(plans.keys().next().value ?? '')
  }
  return {
    get(ref: string): string {
      const plan = plans.get(ref)
      if (plan === undefined) return 'default'
      set(ref, plan)
      return plan
    },
    set,
  }
}
