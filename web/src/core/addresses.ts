// How others reach this server, and what to type to send something to it.

export interface Ways {
    url: string; // "http://host:4040": everything
    otlpHttp: string;
    otlpGrpc: string;
    needsToken: boolean;
}

export interface WaysFrom {
    origin: string; // of the page
    external_url?: string;
    http_port?: number;
    grpc_port?: number;
    needs_token?: boolean;
}

/** Ports for OTLP are the server's own where it says so; 0 or none: the one that answers all. */
export function waysTo(b: WaysFrom): Ways {
    const url = (b.external_url || b.origin).replace(/\/+$/, "");
    const withPort = (port: number | undefined) => {
        if (!port) return url;
        try {
            const u = new URL(url);
            return `${u.protocol}//${u.hostname}:${port}`;
        } catch {
            return url;
        }
    };
    return {
        url,
        otlpHttp: withPort(b.http_port),
        otlpGrpc: withPort(b.grpc_port),
        needsToken: b.needs_token === true,
    };
}

export interface Recipe {
    id: string;
    title: string;
    text: string;
    commands: { label?: string; text: string }[];
}

const TOKEN = "YOUR_TOKEN";

export function recipes(w: Ways): Recipe[] {
    const auth = w.needsToken ? `VESTA_TOKEN=${TOKEN} ` : "";
    const header = w.needsToken ? ` -H 'authorization: Bearer ${TOKEN}'` : "";
    const agentAuth = w.needsToken ? ` --export-headers 'authorization=Bearer ${TOKEN}'` : "";
    const otelAuth = w.needsToken
        ? `\nexport OTEL_EXPORTER_OTLP_HEADERS='authorization=Bearer ${TOKEN}'`
        : "";
    const sdkAuth = w.needsToken ? `\nexport PYROSCOPE_BASIC_AUTH_PASSWORD=${TOKEN}` : "";
    return [
        {
            id: "agent",
            title: "A whole machine",
            text: "The agent profiles every process of a Linux machine. Nothing is restarted or recompiled.",
            commands: [
                {
                    label: "any host",
                    text: `sudo vesta-agent --exporters ${w.otlpHttp}${agentAuth}`,
                },
                { label: "try it out", text: "sudo vesta up" },
            ],
        },
        {
            id: "push",
            title: "A file",
            text: "Any profile format: pprof, JFR, perf, collapsed stacks, speedscope, cpuprofile and more.",
            commands: [
                {
                    label: "vesta",
                    text: `${auth}vesta push --url ${w.url} --service my-service cpu.pb.gz`,
                },
                {
                    label: "curl",
                    text: `curl${header} --data-binary @cpu.pb.gz '${w.url}/api/v1/profiles?service.name=my-service'`,
                },
            ],
        },
        {
            id: "otlp",
            title: "OpenTelemetry",
            text: "Collectors, SDKs and the eBPF profiler send profiles and traces by OTLP.",
            commands: [
                {
                    label: "HTTP",
                    text: `export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf\nexport OTEL_EXPORTER_OTLP_ENDPOINT=${w.otlpHttp}${otelAuth}`,
                },
                {
                    label: "gRPC",
                    text: `export OTEL_EXPORTER_OTLP_PROTOCOL=grpc\nexport OTEL_EXPORTER_OTLP_ENDPOINT=${w.otlpGrpc}${otelAuth}`,
                },
            ],
        },
        {
            id: "pyroscope",
            title: "Pyroscope SDKs and Alloy",
            text: "They work as they are: give them this address.",
            commands: [
                {
                    label: "variables",
                    text: `export PYROSCOPE_SERVER_ADDRESS=${w.url}\nexport PYROSCOPE_APPLICATION_NAME=my-service${sdkAuth}`,
                },
            ],
        },
        {
            id: "scrape",
            title: "Go programs with /debug/pprof",
            text: "The agent scrapes them: CPU, heap, allocations, goroutines, mutexes. In vesta-agent.yaml:",
            commands: [
                {
                    label: "YAML",
                    text: `exporters: ["${w.otlpHttp}"]\nscrape_configs:\n  - job_name: my-service\n    static_configs: [{targets: ["localhost:8080"]}]`,
                },
            ],
        },
    ];
}
