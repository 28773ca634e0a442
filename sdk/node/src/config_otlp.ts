// Where OTLP goes and how: our options, VESTA_*, then OTEL_EXPORTER_OTLP_PROFILES_* over
// OTEL_EXPORTER_OTLP_*.
import { readFileSync } from "node:fs";
import { aText, headersOf, integerOf, oneOf, type Reader, type Source } from "./config_values.js";

export type Compression = "gzip" | "none";

export interface OtlpConfig {
    /** The whole address, with its path. */
    url: string;
    headers: Record<string, string>;
    /** Of one attempt. */
    timeoutMillis: number;
    /** Of its connection. */
    connectMillis: number;
    compression: Compression;
    ca?: Buffer;
    clientKey?: Buffer;
    clientCertificate?: Buffer;
    /** Requests that wait, in bytes as they are sent. The oldest go when more come. */
    bufferBytes: number;
    /** The first wait between attempts; it doubles up to the longest. */
    retryMillis: number;
    retryMaxMillis: number;
    /** What is older is given up. */
    maxAgeMillis: number;
}

const profilesPath = "/v1development/profiles";

const anAddress: Reader<string> = {
    what: "an http:// or https:// address",
    isSecret: true, // user:password@
    read(value) {
        try {
            const url = new URL(String(value));
            return ["http:", "https:"].includes(url.protocol) ? url.href : undefined;
        } catch {
            return undefined;
        }
    },
};

const compressions = oneOf<Compression>("gzip", "none");

export function resolveOtlp(
    top: Source,
    env: Record<string, string | undefined>,
    problems: string[],
): OtlpConfig {
    /** The signal's own variable, else the one for all signals. */
    const either = <T>(name: string, reader: Reader<T>): T | undefined =>
        top.variable(`OTEL_EXPORTER_OTLP_PROFILES_${name}`, reader) ??
        top.variable(`OTEL_EXPORTER_OTLP_${name}`, reader);
    const file = (name: string): Buffer | undefined => readFileOf(either(name, aText), problems);

    tellProtocol(env, problems);
    return {
        url: urlOf(top),
        headers: {
            ...top.variable("OTEL_EXPORTER_OTLP_HEADERS", headersOf),
            ...top.variable("OTEL_EXPORTER_OTLP_PROFILES_HEADERS", headersOf),
            ...top.variable("VESTA_HEADERS", headersOf),
            ...top.option("headers", headersOf),
        },
        timeoutMillis: either("TIMEOUT", integerOf(1, 3_600_000)) ?? 10_000,
        connectMillis: 2_000,
        compression: either("COMPRESSION", compressions) ?? "gzip",
        ca: file("CERTIFICATE"),
        clientKey: file("CLIENT_KEY"),
        clientCertificate: file("CLIENT_CERTIFICATE"),
        bufferBytes:
            top.find("bufferBytes", "BUFFER_BYTES", integerOf(64 << 10, 1 << 30)) ?? 4 << 20,
        retryMillis: 1000,
        retryMaxMillis: 30_000,
        maxAgeMillis: 3_600_000,
    };
}

function urlOf(top: Source): string {
    const base = top.find("endpoint", "ENDPOINT", anAddress);
    const whole = base
        ? undefined
        : top.variable("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", anAddress);
    if (whole) {
        return whole;
    }
    const url = new URL(
        base ?? top.variable("OTEL_EXPORTER_OTLP_ENDPOINT", anAddress) ?? "http://localhost:4318",
    );
    if (!url.pathname.endsWith(profilesPath)) {
        url.pathname = url.pathname.replace(/\/+$/, "") + profilesPath;
    }
    return url.href;
}

/** Others use gRPC with the same variables: the address may be one of port 4317. */
function tellProtocol(env: Record<string, string | undefined>, problems: string[]): void {
    const own = env.OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL;
    const protocol = own || env.OTEL_EXPORTER_OTLP_PROTOCOL;
    if (protocol && !["http/protobuf", "http/json"].includes(protocol)) {
        const name = own ? "OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL" : "OTEL_EXPORTER_OTLP_PROTOCOL";
        problems.push(`${name} is "${protocol}"; this package speaks http/protobuf and http/json`);
    }
}

function readFileOf(path: string | undefined, problems: string[]): Buffer | undefined {
    if (path === undefined) {
        return undefined;
    }
    try {
        return readFileSync(path);
    } catch (error) {
        problems.push(`could not read a certificate or key: ${(error as Error).message}`);
        return undefined;
    }
}
