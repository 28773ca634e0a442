module collector

go 1.25

require (
	go.opentelemetry.io/collector/exporter/otlpexporter v0.159.0
	go.opentelemetry.io/collector/exporter/otlphttpexporter v0.159.0
	go.opentelemetry.io/collector/otelcol v0.159.0
	go.opentelemetry.io/collector/receiver/otlpreceiver v0.159.0
)
