// What `plugins.traces.sdk` names (docs/operating.md#traces): sends the gateway's spans to an OpenTelemetry collector, by
// OTLP over HTTP. Beside this file:
// npm install @opentelemetry/sdk-trace @opentelemetry/resources @opentelemetry/exporter-trace-otlp-http
// Environment: OTEL_EXPORTER_OTLP_ENDPOINT, http://localhost:4318 by default, and the exporter's other names;
// OTEL_TRACES_SAMPLER_ARG: the share of requests that is recorded, 0 to 1, by default all; OTEL_BSP_SCHEDULE_DELAY: how
// often spans are sent, in ms.

import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'

const scheduledDelayMillis = Number(process.env.OTEL_BSP_SCHEDULE_DELAY ?? 5000)
const share = new TraceIdRatioBasedSampler(Number(process.env.OTEL_TRACES_SAMPLER_ARG ?? 1))

export const provider = new TracerProvider({
  resource: resourceFromAttributes({
    'service.name': process.env.OTEL_SERVICE_NAME ?? 'tollgate',
  }),
  // Clients choose their trace ids and flags: only the gateway decides how much is recorded.
  sampler: new ParentBasedSampler({
    root: share,
    remoteParentSampled: share,
    remoteParentNotSampled: share,
  }),
  spanProcessors: [
    new BatchSpanProcessor({ exporter: new OTLPTraceExporter(), scheduledDelayMillis }),
  ],
})
