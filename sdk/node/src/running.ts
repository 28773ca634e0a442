// What runs in this thread already: started by the app, by --import, or by another copy of the
// package. A profiler runs once, whoever starts it first. Who comes later adds what must be hidden and
// who must be asked; all else that differs is told, as it would look as if it worked.
import type { Config, ProfilerName } from "./config.js";
import type { Flag } from "./flags.js";
import type { Handle, StartOptions } from "./options.js";
import { onceInThread } from "./workers.js";

const NAMES: ProfilerName[] = ["cpu", "wall", "allocations", "heap", "eventLoop", "snapshots"];

export interface Running {
    handle: Handle;
    config: Config;
    addMask(rules: string[]): void;
    addFlags(flags: [ProfilerName, Flag][]): void;
    tell(problem: string): void;
}

function running(): Map<ProfilerName, Running> {
    return onceInThread("running", () => new Map<ProfilerName, Running>());
}

function wanted(config: Config): ProfilerName[] {
    return NAMES.filter((name) => config[name].enabled);
}

/** The handle of what runs, where all that is wanted does. Else turns off what runs already. */
export function runningFor(
    config: Config,
    options: StartOptions,
    only?: ProfilerName,
): Handle | undefined {
    const known = running();
    const names = wanted(config);
    const fresh = names.filter((name) => !known.has(name));
    const old = names.filter((name) => known.has(name));
    for (const one of new Set(old.map((name) => known.get(name) as Running))) {
        const its = old.filter((name) => known.get(name) === one);
        join(one, config, its);
        for (const name of passedOver(one.config, config, options, only)) {
            // Of a profiler only the one that runs it knows what is in force.
            const isOther = known.get(name as ProfilerName) !== one;
            if (NAMES.includes(name as ProfilerName) && isOther) continue;
            one.tell(
                `option ${name} is passed over for ${its.join(", ")}: started before, without it`,
            );
        }
    }
    if (names.length > 0 && fresh.length === 0) return known.get(names[0] as ProfilerName)?.handle;
    for (const name of old) config[name] = { ...config[name], enabled: false } as never;
    return undefined;
}

function join(one: Running, config: Config, names: ProfilerName[]): void {
    const rules = config.mask.filter((rule) => !one.config.mask.includes(rule));
    if (rules.length > 0) one.addMask(rules);
    one.config.mask = [...one.config.mask, ...rules];
    const flags: [ProfilerName, Flag][] = [];
    for (const name of names) {
        const flag = config[name].shouldProfile;
        if (flag && flag !== one.config[name].shouldProfile) flags.push([name, flag]);
    }
    if (flags.length > 0) one.addFlags(flags);
}

const joined = ["enabled", "mask", "shouldProfile"];
const ofOtlp = ["endpoint", "headers", "bufferBytes"];

/** Options that say something else than what is in force. */
function passedOver(
    inForce: Config,
    config: Config,
    options: StartOptions,
    only: ProfilerName | undefined,
): string[] {
    const given = Object.entries(options ?? {}).filter(([, value]) => value !== undefined);
    return given
        .map(([name]) => name)
        .filter((name) => !joined.includes(name))
        .filter((name) => {
            const holder = only && !(name in config) && !ofOtlp.includes(name) ? only : undefined;
            return !isSame(valueIn(inForce, name, holder), valueIn(config, name, holder));
        });
}

function valueIn(config: Config, name: string, holder: ProfilerName | undefined): unknown {
    if (ofOtlp.includes(name)) return config.otlp;
    const place: object = holder ? config[holder] : config;
    const value = (place as Record<string, unknown>)[name];
    if (!NAMES.includes(name as ProfilerName)) return value;
    return { ...(value as object), shouldProfile: undefined, isAsked: undefined };
}

/** Exporters are compared as they are: there is no telling what a function does. */
function isSame(a: unknown, b: unknown): boolean {
    const isExporter = (value: unknown): boolean =>
        typeof value === "function" ||
        typeof (value as { export?: unknown })?.export === "function";
    return a === b || (!isExporter(a) && !isExporter(b) && JSON.stringify(a) === JSON.stringify(b));
}

/** Remembers it until it is stopped. */
export function remember(one: Running): Handle {
    const known = running();
    for (const name of wanted(one.config)) known.set(name, one);
    return one.handle;
}

export function forget(handle: Handle): void {
    const known = running();
    for (const [name, other] of known) if (other.handle === handle) known.delete(name);
}
