// Real OTLP clients against a server, for test_server_otlp.py. Prints one JSON line.
//
//   node otlp_clients.js FOLDER grpc URL PATH gzip|identity FILE    @grpc/grpc-js, any message
//   node otlp_clients.js FOLDER sdk-http|sdk-proto|sdk-grpc URL NAME     the SDK's exporters
'use strict';
const fs = require('fs');
const { createRequire } = require('module');
const [folder, what, url, ...rest] = process.argv.slice(2);
const load = createRequire(folder + '/');

function say(answer) {
  console.log(JSON.stringify(answer));
  process.exit(0);
}

function grpcCall(path, packing, file) {
  const grpc = load('@grpc/grpc-js');
  const client = new grpc.Client(url.replace('http://', ''), grpc.credentials.createInsecure(), {
    'grpc.default_compression_algorithm': packing === 'gzip' ? 2 : 0,
  });
  const same = (x) => x;
  const deadline = Date.now() + 10000;
  const metadata = new grpc.Metadata();
  client.makeUnaryRequest(path, same, same, fs.readFileSync(file), metadata, { deadline }, (e, reply) => {
    const details = e && e.metadata.get('grpc-status-details-bin')[0];
    say({
      code: e ? e.code : 0,
      details: e ? e.details : '',
      status: details ? Buffer.from(details).toString('base64') : '',
      reply: reply ? reply.toString('base64') : null,
    });
  });
}

function sdkExport(kind, name) {
  const { BasicTracerProvider, SimpleSpanProcessor } = load('@opentelemetry/sdk-trace-base');
  const { resourceFromAttributes } = load('@opentelemetry/resources');
  const { OTLPTraceExporter } = load('@opentelemetry/exporter-trace-otlp-' + kind);
  const exporter = new OTLPTraceExporter({ url: kind === 'grpc' ? url : url + '/v1/traces' });
  const results = [];
  const send = exporter.export.bind(exporter);
  exporter.export = (spans, done) => send(spans, (r) => {
    results.push({ code: r.code, error: r.error ? String(r.error) : '' });
    done(r);
  });
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({ 'service.name': 'sdk-' + kind, 'service.version': '1.2.3' }),
    spanProcessors: [new SimpleSpanProcessor(exporter)],
  });
  const span = provider.getTracer('test').startSpan(name, {
    kind: 2,
    attributes: { 'http.route': '/cart/:id', 'http.response.status_code': 200, 'user.secret': 'x' },
  });
  const { traceId, spanId } = span.spanContext();
  span.setStatus({ code: 2 });
  span.end();
  provider.forceFlush().then(() => provider.shutdown()).then(() => say({ results, traceId, spanId }));
}

if (what === 'grpc') grpcCall(...rest);
else sdkExport(what.slice(4), rest[0]);
