// When windows are: the first at once, then one in every interval, or back to back where a window is
// as long as the interval. All timers let the process end.
import type { ProfilerName } from "./config.js";
import { askFlags, type Flag } from "./flags.js";
import type { LoadGauge } from "./load.js";
import type { Profile } from "./model.js";
import type { StatsKeeper } from "./stats.js";

/** Something that is captured from now on. */
export interface Capture {
    /** next: the window that follows at once has begun already. */
    end(next?: Capture): Profile[];
}

export interface Job {
    name: string;
    kinds?: ProfilerName[];
    intervalMillis: number;
    durationMillis: number;
    shouldProfile?: Flag;
    /** It says no where it does not answer by then. Default 5,000. */
    flagMillis?: number;
    /** Why there can be no window just now. */
    hindrance?: () => string | undefined;
    begin(): Capture;
    /** Whether a window may begin before the last one has ended. */
    overlap?: boolean;
    /** Its samples have times, so spans are watched while a window is on. */
    hasTimes?: boolean;
    /** What goes on between windows. */
    rest?: () => void;
    /** A flag said no: nothing goes on. */
    off?: () => void;
    close?: () => void;
    /** Windows back to back are cut shorter where the cut takes longer than this. */
    maxCutMillis?: number;
    /** Intervals get longer where ends of windows would take a larger share of the time. */
    maxCutShare?: number;
    /** A window with too many spans to remember is handed over in pieces: this long at least. Default
     * 2,000. */
    pieceMillis?: number;
}

/** What it knows of spans is limited. */
export interface WatchedWindow {
    /** From 0; above 1 its beginning is forgotten. */
    fill(): number;
    end(): void;
}

export interface JobContext {
    stats: StatsKeeper;
    gauge: LoadGauge;
    /** Flags that came later. */
    flagsOf?(kinds: ProfilerName[]): Flag[];
    send(profiles: Profile[]): Promise<void>;
    /** For a window of samples with times. */
    windowBegins(): WatchedWindow | undefined;
}

export interface RunningJob {
    /** Flags came for these: asks whether an open window may go on, else drops it; and there is none
     * before they have answered. */
    askAgain?(kinds: ProfilerName[]): void;
    /** Ends the window and sends it. */
    stop(): Promise<void>;
}

/** So many windows in a row are left out at most: a process that is always hot is seen, too. */
const maxSkips = 4;
/** Flags that come while others are being asked are asked, too. Where they come ever again, there is
 * no window. */
const maxAsks = 4;
const hotShare = 0.25;
const minWindowMillis = 100;
/** Nobody waits long for the first profile. */
const firstMillis = 15_000;
/** Windows that are cut for their cost are no shorter. */
const shortMillis = 10_000;
/** Of the memory for spans: what comes until the next look may be more than what came before. */
const reserve = 0.25;
/** Pauses that are not worth a word. */
const shortPauseMillis = 20;

interface OpenWindow {
    capture: Capture;
    watched: WatchedWindow | undefined;
    /** All flags that came until then allow it. */
    generation: number;
}

interface State {
    job: Job;
    context: JobContext;
    open: OpenWindow | undefined;
    timer: NodeJS.Timeout | undefined;
    stopped: boolean;
    generation: number; // raised by every flag that comes
    isAsking: boolean; // a turn waits for flags, and goes on then: there is no timer
    skips: number;
    durationMillis: number; // as the cut allows
    leastIntervalMillis: number; // likewise
}

export function runJob(job: Job, context: JobContext): RunningJob {
    const state: State = {
        job,
        context,
        open: undefined,
        timer: undefined,
        stopped: false,
        generation: 0,
        isAsking: false,
        skips: 0,
        durationMillis: Math.min(job.durationMillis, firstMillis),
        leastIntervalMillis: 0,
    };
    turn(state);
    return {
        askAgain(kinds) {
            if (job.kinds?.some((kind) => kinds.includes(kind))) askAgain(state);
        },
        async stop() {
            state.stopped = true;
            clearTimeout(state.timer);
            state.timer = undefined; // it knows where it was set
            endWindow(state);
            guarded(job, context, () => job.close?.());
        },
    };
}

/** Asks whether there is to be a window, begins it, and ends the one before. */
function turn(state: State): void {
    ask(state, 1);
}

function ask(state: State, asks: number): void {
    const { generation } = state;
    const settle = (yes: boolean): void => {
        state.isAsking = false;
        const isChanged = state.generation !== generation;
        if (yes && isChanged && !state.stopped && asks < maxAsks) ask(state, asks + 1);
        else proceed(state, yes && !isChanged);
    };
    state.isAsking = true;
    const answer = askFlag(state);
    if (typeof answer === "boolean") settle(answer);
    else void answer.then(settle);
}

function askFlag({ job, context }: State): boolean | Promise<boolean> {
    const flags = [job.shouldProfile, ...(context.flagsOf?.(job.kinds ?? []) ?? [])];
    const failed = (error: unknown): void =>
        context.stats.error(`${job.name}: shouldProfile`, error);
    return askFlags(flags, failed, job.flagMillis);
}

/** A flag that came. A turn that waits asks it, too. Where a window is open: what was seen without its
 * leave is not sent. */
function askAgain(state: State): void {
    const generation = ++state.generation;
    if (!state.open) return;
    const proceedOrDrop = (allowed: boolean): void => {
        const { open } = state;
        if (state.stopped || !open || open.generation >= generation) return;
        if (allowed) {
            open.generation = generation;
            return;
        }
        skip(state, "flag");
        dropWindow(state, open);
        turnOff(state);
        if (!state.isAsking) again(state, state.job.intervalMillis, turn);
    };
    const answer = askFlag(state);
    if (typeof answer === "boolean") proceedOrDrop(answer);
    else void answer.then(proceedOrDrop);
}

function proceed(state: State, allowed: boolean): void {
    if (state.stopped) return;
    const { job } = state;
    const share = allowed ? shareOf(state) : skip(state, "flag");
    const duration = Math.max(
        Math.min(minWindowMillis, job.durationMillis),
        state.durationMillis * share,
    );
    const { open } = state;
    if (!allowed && open && open.generation < state.generation) dropWindow(state, open);
    if (!job.overlap || !allowed) endWindow(state);
    const next = share > 0 ? beginWindow(state) : undefined;
    if (!allowed) turnOff(state);
    else if (!next) rest(state);
    endWindow(state, next);
    const interval = Math.max(job.intervalMillis, state.leastIntervalMillis);
    if (!next) {
        again(state, interval, turn);
        return;
    }
    state.open = next;
    const backToBack = share === 1 && job.durationMillis >= interval;
    if (backToBack) hold(state, duration, turn);
    else hold(state, duration, () => pause(state, interval - duration));
}

/** Until the window is over. It is handed over in pieces where the memory for its spans would not
 * last. */
function hold(state: State, millis: number, then: (state: State) => void): void {
    const { pieceMillis = 2_000 } = state.job;
    const watched = state.open?.watched;
    if (!watched || millis <= pieceMillis) {
        again(state, millis, then);
        return;
    }
    const until = performance.now() + millis;
    const before = watched.fill();
    again(state, pieceMillis, () => {
        const fill = watched.fill();
        if (fill + Math.max(fill - before, reserve) >= 1) cut(state);
        hold(state, until - performance.now(), then);
    });
}

function cut(state: State): void {
    const next = beginWindow(state);
    if (!next) return;
    next.generation = state.open?.generation ?? next.generation;
    endWindow(state, next);
    state.open = next;
}

function pause(state: State, millis: number): void {
    rest(state);
    endWindow(state);
    again(state, millis, turn);
}

/** Before the window ends: V8's profiler stays on only where something of it is open. */
function rest({ job, context }: State): void {
    guarded(job, context, () => job.rest?.());
}

function turnOff({ job, context }: State): void {
    guarded(job, context, () => job.off?.());
}

function guarded(job: Job, { stats }: JobContext, work: () => void): void {
    try {
        stats.timed(work);
    } catch (error) {
        stats.error(job.name, error);
    }
}

function again(state: State, millis: number, then: (state: State) => void): void {
    if (state.stopped) return;
    clearTimeout(state.timer);
    state.timer = setTimeout(() => then(state), Math.max(0, millis));
    state.timer.unref();
}

function shareOf(state: State): number {
    const { stats, gauge } = state.context;
    const hindrance = state.job.hindrance?.();
    if (hindrance) return skip(state, hindrance);
    const verdict = gauge.verdict();
    if (verdict.skip && state.skips < maxSkips) {
        state.skips++;
        return skip(state, verdict.skip);
    }
    state.skips = 0;
    if (verdict.share < 1) stats.shorten();
    return verdict.skip ? hotShare : verdict.share;
}

function skip(state: State, reason: string): 0 {
    state.context.stats.skip(reason);
    return 0;
}

function beginWindow({ job, context, generation }: State): OpenWindow | undefined {
    return context.stats.timed(() => {
        const watched = job.hasTimes ? context.windowBegins() : undefined;
        try {
            return { capture: job.begin(), watched, generation };
        } catch (error) {
            watched?.end();
            context.stats.error(job.name, error);
            return undefined;
        }
    });
}

function endWindow(state: State, next?: OpenWindow): void {
    const { open, job, context } = state;
    if (!open) return;
    state.open = undefined;
    const from = performance.now();
    try {
        const profiles = open.capture.end(next?.capture);
        context.stats.window();
        for (const profile of profiles) context.stats.samples(profile.samples.length);
        void context.send(profiles);
    } catch (error) {
        context.stats.error(job.name, error);
    }
    open.watched?.end();
    const took = performance.now() - from;
    context.stats.own(took);
    fitCut(state, took);
}

function dropWindow(state: State, open: OpenWindow): void {
    state.open = undefined;
    guarded(state.job, state.context, () => void open.capture.end());
    open.watched?.end();
}

/** The longer the window, the more there is to hand over at its end. */
function fitCut(state: State, tookMillis: number): void {
    const { maxCutMillis, maxCutShare, durationMillis } = state.job;
    state.durationMillis = Math.min(durationMillis, fitDuration(state, tookMillis, maxCutMillis));
    const isLong = maxCutShare !== undefined && tookMillis > shortPauseMillis;
    state.leastIntervalMillis = isLong ? tookMillis / maxCutShare : 0;
}

function fitDuration(state: State, tookMillis: number, maxMillis: number | undefined): number {
    if (maxMillis === undefined) return state.job.durationMillis;
    if (tookMillis < maxMillis / 2) return state.durationMillis * 2;
    if (tookMillis <= maxMillis) return state.durationMillis;
    return Math.max(shortMillis, (state.durationMillis * maxMillis) / tookMillis);
}
