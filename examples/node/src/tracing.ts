// Spans, where they are wanted: node --import ./dist/tracing.js dist/server.js. Nothing here knows of
// profiling, and the service runs without it.
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchSpanProcessor, NodeTracerProvider } from "@opentelemetry/sdk-trace-node";

const provider = new NodeTracerProvider({
    resource: resourceFromAttributes({
        "service.name": process.env.OTEL_SERVICE_NAME ?? "vesta-example-node",
    }),
    spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
});
provider.register();

process.once("SIGTERM", () => void provider.shutdown());
