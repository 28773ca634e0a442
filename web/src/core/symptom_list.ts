// From what hurts to the picture that shows why. Symptoms are data: each is a short trail of steps,
// each step a page with a preset. A new symptom is a new entry here and no code.

import type { Kind } from "./kinds";
import type { Filter, PageName, View } from "./url";

/** One way to take a step: a kind of profile, and what is set when it is the one. */
export interface Want {
    kind: Kind;
    view?: Partial<View>;
    stands?: string; // what it shows in place of the kind that is wanted most
}

export interface SymptomStep {
    title: string;
    why: string; // what to look for
    page: PageName;
    wants: readonly Want[]; // in order of preference; none: any type
    view?: Partial<View>;
    range?: string; // "now-24h": at least this much
    compare?: "before" | "deploy";
    extra?: Record<string, string>;
}

export interface Symptom {
    id: string;
    title: string;
    hint: string;
    steps: readonly SymptomStep[];
}

const focus = (value: string): Filter[] => [{ kind: "focus", value }];
const ignore = (value: string): Filter[] => [{ kind: "ignore", value }];

/** Functions that take locks, in the languages whose runtimes we know. */
export const LOCKS =
    "futex|mutex|[Ll]ock(Slow|_slow|_wait)|semacquire|pthread_(mutex|rwlock|cond)|park_|Unsafe_Park|ObjectMonitor|spin_lock";
/** Garbage collectors. */
export const COLLECTORS =
    "^runtime\\.(gc|mark|scan|sweep|bgsweep|bgscavenge)|(^|[^A-Za-z])G1[A-Z]|ZGC|Shenandoah|ParallelGC|[Gg]arbage|v8::internal::.*(Heap|MarkCompact|Scavenge)|gc_collect|^rb_gc|^gc_";
/** Threads that wait for work: not what makes a request slow. */
export const IDLE =
    "epoll_wait|\\[waiting: (poll|timer|sleep)\\]|nanosleep|futex_wait_queue.*idle|runtime\\.(netpoll|findRunnable|gopark)|uv__io_poll|ThreadPoolExecutor\\.getTask|sigtimedwait";

const cpu: Want = { kind: "cpu" };
const cpuLocks: Want = {
    kind: "cpu",
    view: { filters: focus(LOCKS), view: "callers" },
    stands: "CPU time in functions that take locks stands in",
};
const lockWants: readonly Want[] = [
    { kind: "lock" },
    {
        kind: "offcpu",
        view: { filters: focus("futex|lock|mutex|semacquire|park") },
        stands: "off-CPU time in locks stands in",
    },
    cpuLocks,
];
const wallWants: readonly Want[] = [
    { kind: "wall" },
    { kind: "offcpu", stands: "off-CPU time, which is the waiting part of it, stands in" },
];
const waitWants: readonly Want[] = [
    { kind: "offcpu", view: { filters: ignore(IDLE) } },
    {
        kind: "wall",
        view: { view: "waits", filters: ignore(IDLE) },
        stands: "wall-clock time minus CPU time stands in",
    },
];
const allocWants: readonly Want[] = [{ kind: "alloc" }];
const heapWants: readonly Want[] = [
    { kind: "heap" },
    { kind: "faults", stands: "code that touches new memory stands in" },
];

const allocations: SymptomStep = {
    title: "Allocations: who makes garbage",
    why: "Allocating costs CPU at once and again when it is collected. Look for wide frames in request paths.",
    page: "explore",
    wants: allocWants,
    view: { view: "flame" },
};
const locks: SymptomStep = {
    title: "Locks: who waits for whom",
    why: "A lock that many wait for makes cores idle. The callers of the lock are the ones to change.",
    page: "explore",
    wants: lockWants,
    view: { view: "flame" },
};
const wall: SymptomStep = {
    title: "Wall clock: where the time passes",
    why: "Time that is no CPU time is waiting: for locks, disks, other services, a free core.",
    page: "explore",
    wants: wallWants,
    view: { view: "waits" },
};
const cpuFlame: SymptomStep = {
    title: "CPU: what runs",
    why: "The widest frames are where the time goes. A wide frame that you did not expect is the lead.",
    page: "explore",
    wants: [cpu],
    view: { view: "flame" },
};

export const SYMPTOMS: readonly Symptom[] = [
    {
        id: "latency",
        title: "Latency is up, the database is fine",
        hint: "CPU against the period before, then waiting and allocations",
        steps: [
            {
                title: "CPU: what became wider",
                why: "Both periods side by side: orange frames take a larger share than before.",
                page: "compare",
                wants: [cpu],
                compare: "before",
            },
            wall,
            allocations,
        ],
    },
    {
        id: "latency-waits",
        title: "Latency is up, CPU is flat",
        hint: "Where threads wait, without those that only idle; then locks",
        steps: [
            {
                title: "Off-CPU: where threads wait",
                why: "Idle threads are left out. What remains waits for something: the frame in brackets says what for.",
                page: "explore",
                wants: waitWants,
                view: { view: "flame" },
            },
            locks,
            {
                title: "CPU: is anything starved",
                why: "When runnable threads wait for a core, CPU shows who holds it.",
                page: "explore",
                wants: [cpu],
                view: { view: "heat" },
            },
        ],
    },
    {
        id: "tail",
        title: "Only the slowest requests are slow (P99)",
        hint: "Wall clock, then CPU and locks; slow spans where there are any",
        steps: [
            wall,
            {
                title: "Heat map: stalls within seconds",
                why: "Bright cells are bursts, dark columns are stalls of the whole process: collection, throttling, a held lock.",
                page: "explore",
                wants: [cpu],
                view: { view: "heat" },
            },
            locks,
            {
                title: "Traces: the slow ones themselves",
                why: "Samples that were taken inside slow spans show what only they do.",
                page: "traces",
                wants: [],
                extra: { sort: "p99" },
            },
        ],
    },
    {
        id: "cpu-spike",
        title: "CPU spikes although traffic is normal",
        hint: "CPU against the period before, then locks and waiting",
        steps: [
            cpuFlame,
            {
                title: "What is new in the spike",
                why: "The period before is the baseline. Functions only in B were not there.",
                page: "compare",
                wants: [cpu],
                compare: "before",
            },
            locks,
            wall,
        ],
    },
    {
        id: "cost",
        title: "CPU, or the bill, went up",
        hint: "CPU by version, then the newest version against the one before",
        steps: [
            {
                title: "CPU by version",
                why: "Which version, host or endpoint it comes from: change the label to split by others.",
                page: "explore",
                wants: [cpu],
                view: { view: "labels", by: "service.version" },
                range: "now-24h",
            },
            {
                title: "Before and after the newest deployment",
                why: "In absolute numbers: what costs more since then.",
                page: "compare",
                wants: [cpu],
                compare: "deploy",
            },
            {
                title: "The functions that cost most",
                why: "By own time: a few percent saved at the top are worth more than all of the rest.",
                page: "explore",
                wants: [cpu],
                view: { view: "top" },
            },
        ],
    },
    {
        id: "memory",
        title: "Memory climbs slowly",
        hint: "Heap growth by place over time, then allocations",
        steps: [
            {
                title: "Heap over time",
                why: "Places whose live bytes rise and never fall are leaks; those that level off are caches.",
                page: "memory",
                wants: heapWants,
                range: "now-24h",
            },
            allocations,
        ],
    },
    {
        id: "oom",
        title: "Killed for memory after hours",
        hint: "The heap now against the heap earlier, then allocations",
        steps: [
            {
                title: "Heap: now against earlier",
                why: "What grew between the two periods is what was not given back.",
                page: "compare",
                wants: heapWants,
                compare: "before",
                range: "now-6h",
            },
            {
                title: "Heap over time",
                why: "How fast it grows, and when it would hit the limit.",
                page: "memory",
                wants: heapWants,
                range: "now-24h",
            },
            allocations,
        ],
    },
    {
        id: "gc",
        title: "Long or frequent garbage collections",
        hint: "Allocations, then the live heap and the collector's CPU",
        steps: [
            allocations,
            {
                title: "Live heap: what has to be walked",
                why: "A pause grows with what is alive: large caches and long lists of small objects.",
                page: "explore",
                wants: heapWants,
                view: { view: "flame" },
            },
            {
                title: "CPU of the collector",
                why: "Its share of all CPU. Above a tenth, allocating less is the first thing to try.",
                page: "explore",
                wants: [{ kind: "cpu", view: { filters: focus(COLLECTORS) } }],
                view: { view: "flame" },
            },
        ],
    },
    {
        id: "event-loop",
        title: "Event-loop delay warnings",
        hint: "CPU and the loop, then allocations",
        steps: [
            {
                title: "What holds the loop up",
                why: "Wide frames below one callback are the synchronous work that blocks everybody else.",
                page: "explore",
                wants: [
                    { kind: "loop" },
                    {
                        kind: "cpu",
                        stands: "CPU time, which shows what runs on the loop, stands in",
                    },
                ],
                view: { view: "flame", colour: "kind" },
            },
            {
                title: "Heat map: when it stalls",
                why: "Bright bands are long turns of the loop: drag over one to see only that.",
                page: "explore",
                wants: [cpu],
                view: { view: "heat" },
            },
            allocations,
        ],
    },
    {
        id: "deploy",
        title: "Slower since a deployment",
        hint: "The version before against the version after",
        steps: [
            {
                title: "Before and after the deployment",
                why: "The same time on both sides of it. Grey is chance; orange and blue are not.",
                page: "compare",
                wants: [cpu],
                compare: "deploy",
            },
            wall,
            allocations,
        ],
    },
    {
        id: "outlier",
        title: "One instance differs from its peers",
        hint: "Split by instance, then that one against the rest",
        steps: [
            {
                title: "CPU by instance",
                why: "The one that stands out is one click away from being compared with the rest.",
                page: "explore",
                wants: [cpu],
                view: { view: "labels", by: "service.instance.id" },
            },
            {
                title: "CPU by host",
                why: "If all instances of a host differ, it is the host.",
                page: "explore",
                wants: [cpu],
                view: { view: "labels", by: "host.name" },
            },
            locks,
        ],
    },
    {
        id: "locks",
        title: "Lock contention is suspected",
        hint: "Contention with its callers, then who holds the locks",
        steps: [
            {
                title: "Contended locks and their callers",
                why: "Pick the lock in the table: who waits is above it, what it waits in below.",
                page: "explore",
                wants: lockWants,
                view: { view: "callers" },
            },
            {
                title: "Who holds them",
                why: "CPU inside critical sections: shorter ones make shorter queues.",
                page: "explore",
                wants: [cpuLocks],
            },
            wall,
        ],
    },
    {
        id: "throughput",
        title: "Throughput is capped below the CPU limit",
        hint: "One busy thread, or many that wait",
        steps: [
            {
                title: "CPU by thread",
                why: "One thread near a full core, and others idle: the work is serial there.",
                page: "explore",
                wants: [cpu],
                view: { view: "labels", tag: "thread.name" },
            },
            {
                title: "Heat map",
                why: "An even stripe is one thread at its limit; gaps are waits that all share.",
                page: "explore",
                wants: [cpu],
                view: { view: "heat" },
            },
            {
                title: "Off-CPU: what they wait for",
                why: "Pools that are too small and locks look like this.",
                page: "explore",
                wants: waitWants,
                view: { view: "flame" },
            },
        ],
    },
    {
        id: "cold-start",
        title: "Slow in the first minutes after a start",
        hint: "The minutes after the deployment against those later",
        steps: [
            {
                title: "After the deployment, against before it",
                why: "Loading, compiling and filling caches are what only the time after a start has.",
                page: "compare",
                wants: [cpu],
                compare: "deploy",
                range: "now-15m",
            },
            {
                title: "Heat map of the start",
                why: "How long it takes until the pattern is the usual one.",
                page: "explore",
                wants: [cpu],
                view: { view: "heat" },
            },
            {
                title: "Waiting during the start",
                why: "Reading files, connecting, class loading locks.",
                page: "explore",
                wants: waitWants,
                view: { view: "flame" },
            },
        ],
    },
    {
        id: "file",
        title: "I have a file",
        hint: "Any profile format: look at it here, or compare it",
        steps: [
            {
                title: "Open the file",
                why: "It stays in this browser unless you store it.",
                page: "open",
                wants: [],
            },
        ],
    },
];
