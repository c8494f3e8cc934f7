// Exemplars of several processes: beside a bucket of a histogram, the newest request that is in it. prom-client makes them
// for each process (metrics.ts), and drops them when it joins what the processes have counted.

/** A sample of prom-client, whose types do not know exemplars. */
interface BucketSample {
  readonly labels: Readonly<Record<string, string | number>>
  readonly metricName?: string
  /** Has the ids of a request, and its value. `timestamp` is in seconds. */
  exemplar?: { readonly timestamp: number } | null | undefined
}

/** Metrics as JSON. */
type Samples = readonly { readonly name: string; readonly values: readonly unknown[] }[]

/** Adds to each bucket the newest exemplar that it has in one of `parts`. */
export function addExemplars(joined: Samples, parts: readonly Samples[]): void {
  const newest = new Map<string, BucketSample['exemplar']>()
  const named = new Set<string>()
  for (const { name, values } of parts.flat()) {
    for (const sample of values as readonly BucketSample[]) {
      if (!sample.exemplar) continue
      named.add(name)
      const known = newest.get(nameOf(sample))
      const isNewer = !known || known.timestamp < sample.exemplar.timestamp
      if (isNewer) newest.set(nameOf(sample), sample.exemplar)
    }
  }
  for (const { name, values } of joined) {
    if (!named.has(name)) continue
    for (const sample of values as readonly BucketSample[])
      sample.exemplar = newest.get(nameOf(sample))
  }
}

/** Samples of one metric have their labels in one order. */
function nameOf({ metricName, labels }: BucketSample): string {
  return `${metricName} ${Object.values(labels).join('\n')}`
}
