// Kinds of profiles: what they tell about, whatever the collector called their types, and how to get
// them where nobody collects them.

/** What a profile tells about, whatever the collector called its type. */
export type Kind =
    | "cpu"
    | "wall"
    | "offcpu"
    | "lock"
    | "alloc"
    | "heap"
    | "loop"
    | "faults"
    | "threads";

export interface KindFacts {
    name: string; // for people: "CPU time"
    match: readonly RegExp[]; // over type names, the best first
    how: string; // how to get it
    command?: string;
}

export const KINDS: Record<Kind, KindFacts> = {
    cpu: {
        name: "CPU time",
        match: [
            /^(process_)?cpu$/,
            /^cpu_time$/,
            /^(itimer|ctimer|cpu-clock|task-clock|cycles)/,
            /^(?!.*off).*cpu/,
            /^samples$/,
        ],
        how: "The agent collects it from every process without being asked.",
        command: "vesta-agent --types cpu",
    },
    wall: {
        name: "wall-clock time",
        match: [/^wall/, /wall/, /^real(_time)?$/, /^time$/],
        how: "The agent collects it when told to: all threads, running or waiting.",
        command: "vesta-agent --types cpu,wall",
    },
    offcpu: {
        name: "off-CPU time",
        match: [/^off.?cpu/, /blocked/],
        how: "The agent collects it when told to: where threads wait, and for what.",
        command: "vesta-agent --types cpu,offcpu",
    },
    lock: {
        name: "lock contention",
        match: [/^lock/, /^delay$/, /mutex.*(delay|time|duration)/, /mutex|contention|^block/],
        how: "The agent finds it among the waits; vesta run times every contended lock of a native program; Go programs also have mutex and block profiles, which the agent scrapes once runtime.SetMutexProfileFraction is set.",
        command: "vesta-agent --types cpu,offcpu,lock",
    },
    alloc: {
        name: "allocations",
        match: [
            /^alloc_space$/,
            /alloc.*(space|bytes|size)/,
            /^malloc_bytes$/,
            /^alloc(?!.*objects)/,
            /alloc/,
        ],
        how: "Native programs are started by vesta run, Node programs with @vesta/node; Go's heap profile is scraped by the agent; async-profiler's alloc event and Pyroscope's SDKs work, too.",
        command: "vesta run --url http://SERVER:4318 -- PROGRAM",
    },
    heap: {
        name: "live heap",
        match: [
            /^inuse_space$/,
            /inuse.*(space|bytes)/,
            /^live_bytes$/,
            /inuse|live|heap|retained/,
        ],
        how: "Native programs are started by vesta run, Node programs with @vesta/node; Go's heap profile is scraped by the agent; async-profiler's live objects and heap snapshots of Node work, too.",
        command: "vesta run --url http://SERVER:4318 -- PROGRAM",
    },
    loop: {
        name: "event-loop delay",
        match: [/event.?loop/, /loop.?(lag|delay)/],
        how: "It comes from @vesta/node inside the program. Without it, CPU time of the main thread shows what holds the loop up.",
        command: "VESTA_ENABLED=1 node --import @vesta/node/auto app.js",
    },
    faults: {
        name: "page faults",
        match: [/fault/],
        how: "The agent collects it when told to: code that touches memory for the first time.",
        command: "vesta-agent --types cpu,faults",
    },
    threads: {
        name: "threads by state",
        match: [/^threads?$/, /goroutine/],
        how: "The agent collects it when told to.",
        command: "vesta-agent --types cpu,threads",
    },
};

/** The type of that kind among those that are there; "" when there is none. */
export function typeOfKind(kind: Kind, available: readonly string[]): string {
    for (const re of KINDS[kind].match) {
        const found = available.find((t) => re.test(t.split(":")[0]));
        if (found) return found;
    }
    return "";
}
