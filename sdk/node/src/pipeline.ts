// The way of a window's profiles out of the process: spans are joined, frames are shown where source
// maps say, then the exporter masks and sends them.
import type { Config } from "./config.js";
import { createExporter } from "./exporter.js";
import { buildResource } from "./metadata.js";
import type { Profile } from "./model.js";
import { resolveFrames } from "./source_maps.js";
import type { WatchedWindow } from "./schedule.js";
import { createSpanTracker, type SpanTracker, type SpanWindow } from "./span_tracker.js";
import { joinSpans } from "./spans.js";
import type { StatsKeeper } from "./stats.js";
import { threadAttributes } from "./workers.js";

export interface Pipeline {
    /** Spans are watched while a window is open. Undefined where they are not wanted. */
    windowBegins(): WatchedWindow | undefined;
    /** The first part, which needs the window's spans, is done when this returns. */
    send(profiles: Profile[]): Promise<void>;
    /** More rules of what must be hidden, also in windows that are open now. */
    addMask(rules: string[]): void;
    /** Waits for what is under way and ends the exporter. Never rejects. */
    shutdown(timeoutMillis: number): Promise<void>;
}

export function createPipeline(config: Config, stats: StatsKeeper): Pipeline {
    const exporter = createExporter(config, stats);
    const resource = buildResource(config);
    const tracker = config.spans ? trackerOrNone(stats) : undefined;
    const underWay = new Set<Promise<void>>();
    const deliver = async (profiles: Profile[]): Promise<void> => {
        try {
            if (config.sourceMaps) {
                for (const profile of profiles) await resolveFrames(profile, stats.timed);
            }
            await exporter.export({ resource, profiles });
        } catch (error) {
            stats.error("export", error);
        }
    };
    return {
        windowBegins: () => watchWindow(stats, tracker),
        addMask: (rules) => exporter.addMask(rules),
        send(profiles) {
            if (profiles.length === 0) return Promise.resolve();
            const thread = threadAttributes();
            for (const profile of profiles) {
                Object.assign(profile.attributes, thread);
                if (tracker) guarded(stats, () => void joinSpans(profile, tracker));
            }
            const sent = deliver(profiles).finally(() => underWay.delete(sent));
            underWay.add(sent);
            return sent;
        },
        async shutdown(timeoutMillis) {
            const until = performance.now() + timeoutMillis;
            await atMost(Promise.all(underWay), timeoutMillis);
            await exporter.shutdown(Math.max(0, until - performance.now()));
        },
    };
}

function trackerOrNone(stats: StatsKeeper): SpanTracker | undefined {
    try {
        return createSpanTracker();
    } catch (error) {
        stats.error("spans", error);
        return undefined;
    }
}

function watchWindow(stats: StatsKeeper, tracker?: SpanTracker): WatchedWindow | undefined {
    let window: SpanWindow | undefined;
    guarded(stats, () => {
        window = tracker?.begin();
    });
    if (!window) return undefined;
    const { fill, end } = window;
    return {
        fill,
        end() {
            guarded(stats, () => {
                const forgotten = end();
                if (forgotten > 0) stats.drop("span_switches", forgotten);
            });
        },
    };
}

function guarded(stats: StatsKeeper, work: () => void): void {
    try {
        work();
    } catch (error) {
        stats.error("spans", error);
    }
}

/** Waits, but no longer than this. */
export async function atMost(work: Promise<unknown>, millis: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<void>((resolve) => {
        timer = setTimeout(resolve, millis);
    });
    await Promise.race([work, late]);
    clearTimeout(timer);
}
