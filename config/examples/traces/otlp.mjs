// What `plugins.traces.sdk` names (docs/operating.md#traces): sends the gateway's spans to an OpenTelemetry collector, by
// OTLP over HTTP. Beside this file:
// npm install @opentelemetry/sdk-trace @opentelemetry/resources @opentelemetry/exporter-trace-otlp-http
// Environment: OTEL_EXPORTER_OTLP_ENDPOINT, http://localhost:4318 by default, and the exporter's other names; OTEL_SERVICE_NAME;
// OTEL_TRACES_SAMPLER_ARG: the share of requests that is recorded, 0 to 1, by default all; OTEL_BSP_SCHEDULE_DELAY: how
// often spans are sent, in ms.

import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  SamplingDecision,
  TracerProvider,
} from '@opentelemetry/sdk-trace'

const scheduledDelayMillis = Number(process.env.OTEL_BSP_SCHEDULE_DELAY ?? 5000)
const share = Number(process.env.OTEL_TRACES_SAMPLER_ARG ?? 1)

// Clients choose their trace ids and flags, so neither may decide how much is recorded.
const byChance = {
  shouldSample: () => ({
    decision:
      Math.random() < share ? SamplingDecision.RECORD_AND_SAMPLED : SamplingDecision.NOT_RECORD,
  }),
}

export const provider = new TracerProvider({
  resource: resourceFromAttributes({
    'service.name': process.env.OTEL_SERVICE_NAME ?? 'tollgate',
  }),
  sampler: new ParentBasedSampler({
    root: byChance,
    remoteParentSampled: byChance,
    remoteParentNotSampled: byChance,
  }),
  spanProcessors: [
    new BatchSpanProcessor({ exporter: new OTLPTraceExporter(), scheduledDelayMillis }),
  ],
})
