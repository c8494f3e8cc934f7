// Names of models: those of the gateway, and those by which its targets know them. What can't be told apart in a
// backend's count is compared together, such as two models that one target serves under one name.

/** As `GET /admin/targets` has it. */
export interface NamedTargets {
  readonly id: string
  readonly aliases: readonly string[]
  readonly targets: readonly { readonly model: string }[]
}

export interface Models {
  /** The models of the gateway that a backend's name means, with commas; the name itself if it means none. */
  ofBackend(name: string): string
  /** The same for a name of the gateway. */
  ofGateway(name: string): string
  /** Whether it is configured. */
  isKnown(shown: string): boolean
}

/** `renamed` has names of backends that the configuration does not have, with the model of the gateway that they mean. */
export function modelsOf(
  configured: readonly NamedTargets[],
  renamed: Readonly<Record<string, string>> = {},
): Models {
  const byId = groupsOf(configured)
  const shown = (ids: ReadonlySet<string>) => [...ids].toSorted().join(', ')
  const known = new Set([...byId.values()].map(shown))
  const byName = new Map<string, string>()
  const byTarget = new Map<string, string>()
  for (const { id, aliases, targets } of configured) {
    const group = shown(byId.get(id) ?? new Set())
    for (const name of [id, ...aliases]) byName.set(name, group)
    for (const { model } of targets) byTarget.set(model, group)
  }
  const given = new Map(Object.entries(renamed))
  const ofGateway = (name: string) => byName.get(name) ?? name
  return {
    ofGateway,
    ofBackend(name) {
      const meant = given.get(name)
      return meant === undefined ? (byTarget.get(name) ?? ofGateway(name)) : ofGateway(meant)
    },
    isKnown: (name) => known.has(name),
  }
}

/** By id: the models that share a name of a target with it, or with one that does. */
function groupsOf(configured: readonly NamedTargets[]): ReadonlyMap<string, ReadonlySet<string>> {
  const groups = new Map(configured.map(({ id }) => [id, new Set([id])]))
  const firstOf = new Map<string, string>()
  for (const { id, targets } of configured) {
    for (const { model } of targets) {
      const first = firstOf.get(model) ?? id
      firstOf.set(model, first)
      const joined = new Set([...(groups.get(first) ?? []), ...(groups.get(id) ?? [])])
      for (const one of joined) groups.set(one, joined)
    }
  }
  return groups
}
