// What is in force: options, then the environment, then the defaults. A value that cannot be used is
// told (Config.problems) and passed over, so that a slip never stops the app.
import { type Compression, type OtlpConfig, resolveOtlp } from "./config_otlp.js";
import {
    aBoolean,
    aFraction,
    aText,
    attributeList,
    attributesOf,
    integerOf,
    oneOf,
    type Source,
    sourceOf,
    textList,
} from "./config_values.js";
import type { Attributes } from "./model.js";
import type { CommonOptions, OwnExporter, StartOptions } from "./options.js";

export type { Compression, OtlpConfig };

export interface WindowConfig {
    enabled: boolean;
    shouldProfile?: () => boolean | Promise<boolean>;
    intervalMillis: number;
    /** Never longer than the interval; as long: windows back to back. */
    durationMillis: number;
}
export interface CpuConfig extends WindowConfig {
    samplingIntervalMicros: number;
    lineNumbers: boolean;
}
export interface HeapConfig extends WindowConfig {
    samplingIntervalBytes: number;
    stackDepth: number;
    /** Readings that are expected to stop the thread for longer are left out. */
    maxPauseMillis: number;
    /** Somebody asked for it; else it is on by default. */
    isAsked: boolean;
}
export interface EventLoopConfig extends WindowConfig {
    thresholdMillis: number;
}
export interface SnapshotConfig {
    enabled: boolean;
    shouldProfile?: () => boolean | Promise<boolean>;
    intervalMillis: number; // 0: none was given
    maxPauseShare: number;
}

export type LogLevel = "silent" | "error" | "info" | "debug";
export type ProfilerName = "cpu" | "wall" | "allocations" | "heap" | "eventLoop" | "snapshots";

export interface Config {
    enabled: boolean;
    shouldProfile?: () => boolean | Promise<boolean>;
    /** "" where nobody said one: metadata.ts finds a name. */
    serviceName: string;
    resourceAttributes: Attributes;
    exporter: NonNullable<CommonOptions["exporter"]>;
    otlp: OtlpConfig;
    outDir: string;
    mask: string[];
    maskBuiltIn: boolean;
    lineNumbers: boolean;
    sourceMaps: boolean;
    spans: boolean;
    maxCpu: number;
    maxLagMillis: number;
    logLevel: LogLevel;
    cpu: CpuConfig;
    wall: CpuConfig;
    allocations: HeapConfig;
    heap: HeapConfig;
    eventLoop: EventLoopConfig;
    snapshots: SnapshotConfig;
    /** The environment that was read: metadata.ts looks there, too. */
    env: Environment;
    /** What was passed over and why, in words. */
    problems: string[];
}

export type Environment = Record<string, string | undefined>;

const minute = 60_000;

/** Of a reading of the heap: what nobody asked for may stop the app for less. */
const usualPauseMillis = 100;
const askedPauseMillis = 1000;

/** Whether start() runs a profiler, and its windows. */
const defaults = {
    cpu: { on: true, intervalMillis: 5 * minute, durationMillis: 15_000 },
    wall: { on: false, intervalMillis: 5 * minute, durationMillis: 15_000 },
    allocations: { on: true, intervalMillis: 5 * minute, durationMillis: minute },
    heap: { on: false, intervalMillis: 10 * minute, durationMillis: 10 * minute },
    eventLoop: { on: true, intervalMillis: minute, durationMillis: minute },
};
/** With start() CPU and event loop share their windows. Back to back they cost less than windows that
 * come and go: V8's profiler is dear to start, not to run. */
const alwaysOn = { intervalMillis: minute, durationMillis: minute };
const prefixes: Record<ProfilerName, string> = {
    cpu: "CPU",
    wall: "WALL",
    allocations: "ALLOCATIONS",
    heap: "HEAP",
    eventLoop: "EVENT_LOOP",
    snapshots: "HEAP_SNAPSHOTS",
};

const millis = integerOf(1, 0x7fffffff);

/**
 * Options of start(), or, with `only`, those of one start function: then that profiler alone is on.
 */
export function resolveConfig(
    given: StartOptions = {},
    env: Environment = process.env,
    only?: ProfilerName,
): Config {
    const options = typeof given === "object" && given !== null ? given : {};
    const problems: string[] = [];
    const top = sourceOf(options, "", "VESTA_", env, problems);
    const shouldProfile = functionOf(top, options, "shouldProfile");
    tellUnknown(options, only, problems);
    const common = resolveCommon(top, env);
    const shared: Shared = { env, problems, only, shouldProfile, lineNumbers: common.lineNumbers };
    return {
        enabled: isEnabled(top, env),
        shouldProfile,
        ...common,
        cpu: cpuOf("cpu", options, shared),
        wall: cpuOf("wall", options, shared),
        allocations: heapOf("allocations", options, shared),
        heap: heapOf("heap", options, shared),
        eventLoop: eventLoopOf(options, shared),
        snapshots: snapshotsOf(options, shared),
        otlp: resolveOtlp(top, env, problems),
        env,
        problems,
    };
}

const commonNames = [
    ...["enabled", "shouldProfile", "serviceName", "resourceAttributes", "exporter", "endpoint"],
    ...["headers", "bufferBytes", "outDir", "mask", "maskBuiltIn", "lineNumbers", "sourceMaps"],
    ...["spans", "maxCpu", "maxLagMillis", "logLevel"],
];
const window = ["enabled", "shouldProfile", "intervalMillis", "durationMillis"];
const groupNames: Record<ProfilerName, string[]> = {
    cpu: [...window, "samplingIntervalMicros", "lineNumbers"],
    wall: [...window, "samplingIntervalMicros", "lineNumbers"],
    allocations: [...window, "samplingIntervalBytes", "stackDepth", "maxPauseMillis"],
    heap: [...window, "samplingIntervalBytes", "stackDepth", "maxPauseMillis"],
    eventLoop: [...window, "thresholdMillis"],
    snapshots: ["enabled", "shouldProfile", "intervalMillis", "maxPauseShare"],
};

/** A slip in a name would else look as if it worked. */
function tellUnknown(
    options: StartOptions,
    only: ProfilerName | undefined,
    problems: string[],
): void {
    const groups = Object.keys(groupNames) as ProfilerName[];
    const check = (given: unknown, known: string[], label: string): void => {
        const names = typeof given === "object" && given !== null ? Object.keys(given) : [];
        for (const name of names.filter((n) => !known.includes(n))) {
            problems.push(`option ${label}${name} is not known here; it is passed over`);
        }
    };
    check(options, [...commonNames, ...(only ? groupNames[only] : groups)], "");
    for (const name of only ? [] : groups) {
        check((options as Record<string, unknown>)[name], groupNames[name], `${name}.`);
    }
}

function isEnabled(top: Source, env: Environment): boolean {
    const said = top.option("enabled", aBoolean);
    if (said !== undefined) {
        return said;
    }
    if (top.variable("OTEL_SDK_DISABLED", aBoolean)) {
        return false;
    }
    const ours = top.variable("VESTA_ENABLED", aBoolean);
    return (
        ours ?? (env.ENABLE_PROFILING ? top.variable("ENABLE_PROFILING", aBoolean) : false) ?? false
    );
}

function resolveCommon(top: Source, env: Environment) {
    const outDir = top.find("outDir", "OUT_DIR", aText);
    const attributes = top.option("resourceAttributes", attributesOf);
    return {
        serviceName:
            top.option("serviceName", aText) ??
            aText.read(attributes?.["service.name"]) ??
            top.variable("VESTA_SERVICE_NAME", aText) ??
            top.variable("OTEL_SERVICE_NAME", aText) ??
            "",
        resourceAttributes: {
            ...top.variable("OTEL_RESOURCE_ATTRIBUTES", attributeList),
            ...top.variable("VESTA_RESOURCE_ATTRIBUTES", attributeList),
            ...attributes,
        },
        exporter: exporterOf(top, env, outDir !== undefined),
        outDir: outDir ?? "./profiles",
        mask: top.find("mask", "MASK_RULES", textList) ?? [],
        maskBuiltIn: top.find("maskBuiltIn", "MASK_DEFAULTS", aBoolean) ?? true,
        lineNumbers: top.find("lineNumbers", "LINE_NUMBERS", aBoolean) ?? true,
        sourceMaps: top.find("sourceMaps", "SOURCE_MAPS", aBoolean) ?? true,
        spans: top.find("spans", "SPANS", aBoolean) ?? true,
        maxCpu: top.find("maxCpu", "MAX_CPU", aFraction(1024)) ?? 0.9,
        maxLagMillis: top.find("maxLagMillis", "MAX_LAG_MILLIS", aFraction(1e9)) ?? 200,
        logLevel: top.find("logLevel", "LOG_LEVEL", logLevels) ?? "error",
    };
}

const logLevels = oneOf<LogLevel>("silent", "error", "info", "debug");
const exporters = oneOf("otlp", "otlp-json", "file");

function exporterOf(top: Source, env: Environment, hasFolder: boolean): Config["exporter"] {
    const own = top.raw("exporter");
    if (typeof own === "function") {
        return own as Config["exporter"];
    }
    const { export: method } = (own ?? {}) as { export?: unknown };
    if (typeof own === "object" && typeof method === "function") {
        return own as OwnExporter;
    }
    const named = top.find("exporter", "EXPORTER", exporters);
    if (named || hasFolder) {
        return named ?? "file";
    }
    const protocol = env.OTEL_EXPORTER_OTLP_PROFILES_PROTOCOL || env.OTEL_EXPORTER_OTLP_PROTOCOL;
    return protocol === "http/json" ? "otlp-json" : "otlp";
}

// ---- One profiler

interface Shared {
    env: Environment;
    problems: string[];
    only: ProfilerName | undefined;
    shouldProfile: (() => boolean | Promise<boolean>) | undefined;
    lineNumbers: boolean;
}

type Group = Record<string, unknown> | boolean | undefined;

/** Where a profiler's own options are, and whether it is on. */
function groupOf(name: ProfilerName, options: StartOptions, shared: Shared) {
    const isOnly = shared.only === name;
    const given = isOnly ? options : (options as Record<string, Group>)[name];
    const own = typeof given === "object" && given !== null ? given : {};
    const prefix = `VESTA_${prefixes[name]}_`;
    const label = isOnly ? "" : `${name}.`;
    const source = sourceOf(own, label, prefix, shared.env, shared.problems);
    return { source, own, enabled: isOnly || (!shared.only && isOn(name, given, source, shared)) };
}

function isOn(name: ProfilerName, given: unknown, source: Source, shared: Shared): boolean {
    if (typeof given === "boolean") {
        return given;
    }
    if (typeof given === "object" && given !== null) {
        return source.option("enabled", aBoolean) ?? true;
    }
    if (given !== undefined) {
        shared.problems.push(`option ${name} is neither true, false nor an object`);
    }
    const byDefault = name !== "snapshots" && defaults[name].on;
    return source.variable(`VESTA_${prefixes[name]}`, aBoolean) ?? byDefault;
}

function windowOf(name: keyof typeof defaults, options: StartOptions, shared: Shared) {
    const { source, own, enabled } = groupOf(name, options, shared);
    const interval = source.find("intervalMillis", "INTERVAL_MILLIS", millis);
    const duration = source.find("durationMillis", "DURATION_MILLIS", millis);
    const isUnsaid = interval === undefined && duration === undefined;
    const usual = name === "cpu" && !shared.only && isUnsaid ? alwaysOn : defaults[name];
    const intervalMillis = interval ?? Math.max(usual.intervalMillis, duration ?? 0);
    const window: WindowConfig = {
        enabled,
        shouldProfile: functionOf(source, own, "shouldProfile") ?? shared.shouldProfile,
        intervalMillis,
        durationMillis: Math.min(duration ?? usual.durationMillis, intervalMillis),
    };
    return { source, window };
}

function cpuOf(name: "cpu" | "wall", options: StartOptions, shared: Shared): CpuConfig {
    const { source, window } = windowOf(name, options, shared);
    const micros = integerOf(50, 10_000_000);
    return {
        ...window,
        samplingIntervalMicros:
            source.find("samplingIntervalMicros", "SAMPLING_INTERVAL_MICROS", micros) ?? 10_000,
        lineNumbers: source.option("lineNumbers", aBoolean) ?? shared.lineNumbers,
    };
}

function heapOf(name: "allocations" | "heap", options: StartOptions, shared: Shared): HeapConfig {
    const { source, window } = windowOf(name, options, shared);
    const bytes = integerOf(1, 1 << 30);
    const isAsked =
        shared.only === name ||
        (options[name] ?? source.variable(`VESTA_${prefixes[name]}`, aBoolean)) !== undefined;
    return {
        ...window,
        samplingIntervalBytes:
            source.find("samplingIntervalBytes", "SAMPLING_INTERVAL_BYTES", bytes) ?? 512 << 10,
        stackDepth: source.find("stackDepth", "STACK_DEPTH", integerOf(1, 1024)) ?? 64,
        maxPauseMillis:
            source.find("maxPauseMillis", "MAX_PAUSE_MILLIS", aFraction(600_000)) ??
            (isAsked ? askedPauseMillis : usualPauseMillis),
        isAsked,
    };
}

function eventLoopOf(options: StartOptions, shared: Shared): EventLoopConfig {
    const { source, window } = windowOf("eventLoop", options, shared);
    return {
        ...window,
        thresholdMillis: source.find("thresholdMillis", "THRESHOLD_MILLIS", aFraction(1e6)) ?? 20,
    };
}

function snapshotsOf(options: StartOptions, shared: Shared): SnapshotConfig {
    const { source, own, enabled } = groupOf("snapshots", options, shared);
    const interval = source.find("intervalMillis", "INTERVAL_MILLIS", millis);
    return {
        enabled,
        shouldProfile: functionOf(source, own, "shouldProfile") ?? shared.shouldProfile,
        intervalMillis: interval ?? 0,
        maxPauseShare: source.find("maxPauseShare", "MAX_PAUSE_SHARE", aFraction(1)) ?? 0.001,
    };
}

function functionOf(source: Source, own: object, name: "shouldProfile") {
    const value = (own as CommonOptions)[name];
    if (value !== undefined && typeof value !== "function") {
        source.tell(name, value, "a function");
        return undefined;
    }
    return value;
}
