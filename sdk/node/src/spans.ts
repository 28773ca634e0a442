// Gives samples the span that was active at their time.
import { monotonicMicrosOf } from "./clock.js";
import type { Profile } from "./model.js";
import type { SpanTracker } from "./span_tracker.js";

/** What V8 calls time in which none of the app's code ran: it belongs to no span. */
const NOBODY = new Set(["(program)", "(idle)", "(root)", "(not running)"]);

/** Sets link and http.route of the samples that have a time. Says how many got a link. */
export function joinSpans(profile: Profile, tracker: SpanTracker): number {
    let linked = 0;
    const activeAt = tracker.reader();
    for (const sample of profile.samples) {
        if (sample.timeUnixNanos === undefined || sample.stack === 0) continue;
        const leaf = profile.frames[profile.stacks.frame[sample.stack] ?? -1];
        const isAlone = profile.stacks.parent[sample.stack] === 0;
        if (!leaf || (isAlone && leaf.file === "" && NOBODY.has(leaf.name))) continue;
        const active = activeAt(monotonicMicrosOf(sample.timeUnixNanos));
        if (!active) continue;
        sample.link = active.link;
        if (active.attributes) sample.attributes = { ...sample.attributes, ...active.attributes };
        linked++;
    }
    return linked;
}
