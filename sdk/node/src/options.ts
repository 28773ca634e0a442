// Everything a user can say, in one place. What is left out comes from the environment, then from
// the defaults (config.ts).
import type { Attributes, Batch } from "./model.js";

/** What it gives back is not looked at, but for promises: they are waited for. */
export interface OwnExporter {
    export(batch: Batch): unknown;
    /** Sends what waits, for at most this long. */
    shutdown?(timeoutMillis: number): unknown;
}

export interface CommonOptions {
    /** Nothing happens unless this, or VESTA_ENABLED / ENABLE_PROFILING in the environment, is on. */
    enabled?: boolean;
    /** Asked before every window: a feature flag. False skips the window. */
    shouldProfile?: () => boolean | Promise<boolean>;
    serviceName?: string;
    /** More of the resource: deployment.environment.name, deployment.id... */
    resourceAttributes?: Attributes;
    /** "otlp" (default), "otlp-json", "file" (default when outDir is given), or your own. */
    exporter?: "otlp" | "otlp-json" | "file" | OwnExporter | OwnExporter["export"];
    /** OTLP base URL; default OTEL_EXPORTER_OTLP_ENDPOINT or http://localhost:4318. */
    endpoint?: string;
    headers?: Record<string, string>;
    /** Requests that wait while the endpoint is away, in bytes; the oldest go. Default 4 MiB. */
    bufferBytes?: number;
    /** Files go here; "./profiles" for the exporter "file". */
    outDir?: string;
    /** Rules as on the server: "paths: #^/build/#/#". The built-in ones hide tokens and homes. */
    mask?: string[];
    maskBuiltIn?: boolean;
    /** Lines that ran, not only the functions' own. Default true. */
    lineNumbers?: boolean;
    /** Default true: frames of bundles are shown where their source maps say. */
    sourceMaps?: boolean;
    /** Default true: samples carry the active span when @opentelemetry/api is there. */
    spans?: boolean;
    /** Windows are left out while the thread uses more than this share of one core, or the process of
     * all the cores that it may use (default 0.9), and get shorter from half of the way. 0: never. Of many in a row
     * every fifth is taken and is short, so that a process that is always hot is seen, too. */
    maxCpu?: number;
    /** The same for event-loop lag, in ms (p99 of the last seconds; default 200). 0: never. */
    maxLagMillis?: number;
    /** For the SDK's own words: "silent", "error" (default), "info", "debug". */
    logLevel?: "silent" | "error" | "info" | "debug";
}

export interface WindowOptions extends CommonOptions {
    /** From the start of one window to that of the next. Default: 5 minutes; 10 for the live heap; one
     * for the event loop and, with start(), for CPU. */
    intervalMillis?: number;
    /** Of a window. As long as the interval, or longer: windows back to back (always on). Default: 15
     * seconds for CPU and wall, a minute for allocations, always on for the others and, with start(),
     * for CPU. */
    durationMillis?: number;
}

export interface CpuOptions extends WindowOptions {
    samplingIntervalMicros?: number; // default 10,000
}
export interface WallOptions extends CpuOptions {}
export interface HeapOptions extends WindowOptions {
    samplingIntervalBytes?: number; // default 512 KiB
    stackDepth?: number; // default 64; V8 has 128 at most
    /** V8 collects all garbage before it hands out samples, which stops the thread: by about 0.8 ms for
     * each MB of heap. Windows whose reading is expected to take longer are left out. Default 1,000;
     * 100 for allocations that start() takes without being asked. */
    maxPauseMillis?: number;
}
export interface EventLoopOptions extends WindowOptions {
    /** A turn of the loop that takes longer has blocked it. Default 20. */
    thresholdMillis?: number;
}
export interface SnapshotOptions extends CommonOptions {
    /** No default: snapshots stop the process. */
    intervalMillis: number;
    /** Refuses an interval of which pauses would take a larger share. Default 0.001. */
    maxPauseShare?: number;
}

/** Of one profiler, within the options of start(): all else holds for all of them. */
export type GroupOptions<T extends CommonOptions> = Omit<
    T,
    Exclude<keyof CommonOptions, "enabled" | "shouldProfile">
>;
export type CpuGroup = GroupOptions<CpuOptions> & Pick<CommonOptions, "lineNumbers">;
export type HeapGroup = GroupOptions<HeapOptions>;
export type EventLoopGroup = GroupOptions<EventLoopOptions>;
export type SnapshotGroup = GroupOptions<SnapshotOptions>;

export interface StartOptions extends CommonOptions {
    cpu?: CpuGroup | boolean; // default true
    wall?: CpuGroup | boolean; // default false
    /** V8 has one sampler for allocations and live heap. So by default there are no allocations while
     * the live heap is on. Where both are asked for they take turns: every window of allocations makes
     * the live heap forget all that was allocated before, and slow leaks do not show. */
    allocations?: HeapGroup | boolean; // default true; false while the live heap is on
    heap?: HeapGroup | boolean; // default false
    eventLoop?: EventLoopGroup | boolean; // default true
    snapshots?: SnapshotGroup | false; // default false
}

/** What a start function gives back. */
export interface Handle {
    /** Ends the window, sends what there is, at most timeoutMillis (default 5,000). */
    stop(timeoutMillis?: number): Promise<void>;
    stats(): Stats;
}

export interface Stats {
    enabled: boolean;
    windows: number;
    skipped: Record<string, number>; // by reason: "flag", "cpu", "lag"; "heap": see allocations
    shortened: number;
    samples: number;
    exported: number; // batches
    retried: number;
    /** Batches by reason: "buffer", "refused", "timeout", "stopped"; and "rejected_profiles" of those
     * that were taken; "span_switches": of which there were too many, so samples lack their span. */
    dropped: Record<string, number>;
    exportedBytes: number;
    /** Time this package spent on the app's thread, and its share of the time since the start. */
    ownMillis: number;
    ownShare: number;
    /** How long the next heap snapshot is expected to stop the thread. 0: none was asked for. */
    pauseEstimateMillis: number;
    errors: number;
    lastError: string;
}
