// V8's CPU profiler, shared by all who need samples of stacks: CPU, wall and event loop.
//
// Starting it is dear: V8 looks through the whole heap for functions, which stops an app with much
// code for 50 to 250 ms. A profile that begins while another is open costs 0.1 ms. So windows are
// console profiles of the session, which may overlap, and not Profiler.start and stop, of which a
// session has one at a time: windows back to back never let the profiler go. The console is V8's own,
// not the global one, which apps and test runners replace.
//
// V8 tells of console profiles in every session that has its profiler on. One is Node's own, of
// --cpu-prof and of coverage: it understands none of it, and prints the whole profile to standard
// error. There every run is a Profiler.start in a session of its own, and costs what it costs.
import { inspector, openOwnV8, openV8, type V8 } from "./session.js";
import type { V8CallFrame } from "./profile_from_v8.js";
import { onceInThread } from "./workers.js";

export interface V8CpuNode {
    id: number;
    callFrame: V8CallFrame;
    hitCount?: number;
    children?: number[];
    positionTicks?: { line: number; ticks: number }[];
}

/** Times are microseconds of the clock of process.hrtime. */
export interface V8CpuProfile {
    nodes: V8CpuNode[];
    startTime: number;
    endTime: number;
    samples?: number[];
    timeDeltas?: number[];
}

export interface CpuRun {
    /** The first run of all: V8 had to start its profiler, and took this long. */
    startMillis: number;
    intervalMicros: number;
    /** Undefined if somebody else ended it: an app that calls console.profileEnd() itself. */
    end(): V8CpuProfile | undefined;
}

interface ProfilingConsole {
    profile(title: string): void;
    profileEnd(title: string): void;
}

interface Sampler {
    v8: V8 | undefined;
    runs: number;
    made: number;
    intervalMicros: number;
    finished: Map<string, V8CpuProfile>;
    close: (() => void)[];
}

function sampler(): Sampler {
    return onceInThread<Sampler>("cpu_sampler", () => ({
        v8: undefined,
        runs: 0,
        made: 0,
        intervalMicros: 0,
        finished: new Map(),
        close: [],
    }));
}

const ofNode = /(^|[\s"'=])--(cpu-prof|experimental-test-coverage)(?=$|[\s"'=])/;

/** Whether Node has a session of its own that would print profiles. Exported for tests. */
export function isNodeProfiling(
    env: Record<string, string | undefined> = process.env,
    execArgv: string[] = process.execArgv,
): boolean {
    if (env.NODE_V8_COVERAGE) return true;
    return ofNode.test(`${env.NODE_OPTIONS ?? ""} ${execArgv.join(" ")}`);
}

/** With a run open already, its sampling interval holds. */
export function beginCpuRun(intervalMicros: number): CpuRun {
    return isNodeProfiling() ? beginOwnRun(intervalMicros) : beginConsoleRun(intervalMicros);
}

/** Nothing is gained by leaving such a one open: no other starts quicker. So it says that it was
 * quick itself. */
function beginOwnRun(intervalMicros: number): CpuRun {
    const v8 = openOwnV8();
    try {
        v8.post("Profiler.enable");
        v8.post("Profiler.setSamplingInterval", { interval: intervalMicros });
        v8.post("Profiler.start");
    } catch (error) {
        v8.release();
        throw error;
    }
    let isOpen = true;
    return {
        startMillis: 0,
        intervalMicros,
        end() {
            if (!isOpen) return undefined;
            isOpen = false;
            try {
                return v8.post<{ profile: V8CpuProfile }>("Profiler.stop").profile;
            } finally {
                v8.release();
            }
        },
    };
}

function beginConsoleRun(intervalMicros: number): CpuRun {
    const { console: v8Console } = inspector() as unknown as { console: ProfilingConsole };
    const shared = sampler();
    const from = performance.now();
    if (shared.runs === 0) open(shared, intervalMicros);
    shared.runs++;
    const title = `vesta-${++shared.made}`;
    try {
        v8Console.profile(title);
    } catch (error) {
        leave(shared);
        throw error;
    }
    let isOpen = true;
    return {
        startMillis: performance.now() - from,
        intervalMicros: shared.intervalMicros,
        end() {
            if (!isOpen) return undefined;
            isOpen = false;
            try {
                if (!shared.finished.has(title)) v8Console.profileEnd(title);
                return shared.finished.get(title);
            } finally {
                shared.finished.delete(title);
                leave(shared);
            }
        },
    };
}

function open(shared: Sampler, intervalMicros: number): void {
    const v8 = openV8();
    shared.v8 = v8;
    shared.close.push(() => v8.release());
    try {
        shared.close.push(v8.use("Profiler"));
        v8.post("Profiler.setSamplingInterval", { interval: intervalMicros });
        shared.intervalMicros = intervalMicros;
        const stopListening = v8.on("Profiler.consoleProfileFinished", (params) => {
            const { title, profile } = params as { title?: string; profile: V8CpuProfile };
            if (title?.startsWith("vesta-")) shared.finished.set(title, profile);
        });
        shared.close.push(stopListening);
    } catch (error) {
        close(shared);
        throw error;
    }
}

function leave(shared: Sampler): void {
    if (--shared.runs === 0) close(shared);
}

function close(shared: Sampler): void {
    for (const step of shared.close.splice(0).reverse()) step();
    shared.v8 = undefined;
    shared.finished.clear();
}
