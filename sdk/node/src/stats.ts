// What this package did and what it cost, and its few words to the people who run the app.
import { writeSync } from "node:fs";
import type { Config, LogLevel } from "./config.js";
import type { Stats } from "./options.js";

export interface Log {
    error(text: string): void;
    info(text: string): void;
    debug(text: string): void;
}

/** Counts, and tells what went wrong. Nothing here throws. */
export interface StatsKeeper {
    log: Log;
    window(): void;
    skip(reason: string): void;
    shorten(): void;
    samples(count: number): void;
    exported(bytes: number): void;
    retried(): void;
    drop(reason: string, count?: number): void;
    /** Time on the app's thread that was ours. */
    own(millis: number): void;
    /** Runs it and counts its time as ours. */
    timed<T>(work: () => T): T;
    pauseEstimate(millis: number): void;
    error(where: string, problem: unknown): void;
    snapshot(): Stats;
}

const ranks: Record<LogLevel, number> = { silent: 0, error: 1, info: 2, debug: 3 };

/** The same words are not told again before this. */
const quietMillis = 600_000;
const memory = 100;

export function createLog(level: LogLevel, write: (line: string) => void = toStderr): Log {
    const told = new Map<string, number>();
    const tell = (rank: number, text: string, again: boolean): void => {
        const now = performance.now();
        if (
            ranks[level] < rank ||
            (!again && now - (told.get(text) ?? -quietMillis) < quietMillis)
        ) {
            return;
        }
        if (told.size >= memory) {
            told.clear();
        }
        told.set(text, now);
        try {
            write(`vesta: ${text}\n`);
        } catch {
            // There is nobody left to tell.
        }
    };
    return {
        error: (text) => tell(1, text, false),
        info: (text) => tell(2, text, true),
        debug: (text) => tell(3, text, true),
    };
}

/** Not by process.stderr: a reader that is gone would be an "error" event there, which ends the app.
 * What a full pipe does not take is not told: waiting for it would stop the app. */
function toStderr(line: string): void {
    writeSync(2, line);
}

function add(counts: Record<string, number>, reason: string, n: number): void {
    counts[reason] = (counts[reason] ?? 0) + n;
}

/** Also tells what was wrong with the configuration, once in a process. */
export function createStats(
    config: Readonly<Pick<Config, "enabled" | "logLevel"> & { problems: readonly string[] }>,
    log: Log = createLog(config.logLevel),
): StatsKeeper {
    const started = performance.now();
    const stats: Stats = {
        enabled: config.enabled,
        windows: 0,
        skipped: {},
        shortened: 0,
        samples: 0,
        exported: 0,
        retried: 0,
        dropped: {},
        exportedBytes: 0,
        ownMillis: 0,
        ownShare: 0,
        pauseEstimateMillis: 0,
        errors: 0,
        lastError: "",
    };
    const keeper: StatsKeeper = {
        log,
        window: () => void stats.windows++,
        skip: (reason) => add(stats.skipped, reason, 1),
        shorten: () => void stats.shortened++,
        samples(count) {
            stats.samples += count;
        },
        exported(bytes) {
            stats.exported++;
            stats.exportedBytes += bytes;
        },
        retried: () => void stats.retried++,
        drop: (reason, count = 1) => add(stats.dropped, reason, count),
        own(millis) {
            stats.ownMillis += millis;
        },
        timed(work) {
            const from = performance.now();
            try {
                return work();
            } finally {
                stats.ownMillis += performance.now() - from;
            }
        },
        pauseEstimate(millis) {
            stats.pauseEstimateMillis = millis;
        },
        error(where, problem) {
            stats.errors++;
            stats.lastError = `${where}: ${wordsOf(problem)}`;
            log.error(stats.lastError);
        },
        snapshot() {
            const elapsed = Math.max(performance.now() - started, 1);
            return {
                ...stats,
                skipped: { ...stats.skipped },
                dropped: { ...stats.dropped },
                ownShare: stats.ownMillis / elapsed,
            };
        },
    };
    tellProblems(config, keeper);
    return keeper;
}

const problemsTold = new Set<string>();

function tellProblems(
    config: { enabled: boolean; problems: readonly string[] },
    keeper: StatsKeeper,
): void {
    for (const problem of config.enabled ? config.problems : []) {
        if (!problemsTold.has(problem)) {
            problemsTold.add(problem);
            keeper.error("configuration", problem);
        }
    }
}

/** Somebody else's errors may be anything, also things that cannot be put in words. */
export function wordsOf(problem: unknown): string {
    try {
        if (problem instanceof Error) {
            const code = (problem as NodeJS.ErrnoException).code;
            return String(problem.message || code || problem.name); // of many addresses: no message
        }
        return String(problem);
    } catch {
        return "an error without words";
    }
}
