// Samples that are alike become one: same stack, same span, same attributes. OTLP asks for it, and
// files get smaller.
import type { Attributes, Profile, Sample, SpanLink, Stacks } from "./model.js";

export interface MergedSample {
    stack: number;
    link: SpanLink | undefined;
    attributes: Attributes | undefined;
    /** For each sample type: one total, or one value for each time. */
    values: number[][];
    /** Empty unless every sample of the profile has one. */
    times: bigint[];
}

/** With times only when they were asked for and no sample lacks one. */
export function mergeSamples(profile: Profile, withTimes: boolean): MergedSample[] {
    const { samples, sampleTypes } = profile;
    const isTimed = withTimes && samples.every((s) => s.timeUnixNanos !== undefined);
    const merged = new Map<number | string, MergedSample>();
    const keyOf = createKeys();
    for (const sample of samples) {
        const key = keyOf(sample);
        let row = merged.get(key);
        if (!row) {
            const { stack, link, attributes } = sample;
            const values = sampleTypes.map(() => (isTimed ? [] : [0]));
            row = { stack, link, attributes, values, times: [] };
            merged.set(key, row);
        }
        for (let i = 0; i < sampleTypes.length; i++) {
            const column = row.values[i]!;
            const value = sample.values[i] ?? 0;
            if (isTimed) {
                column.push(value);
            } else {
                column[0]! += value;
            }
        }
        if (isTimed) {
            row.times.push(sample.timeUnixNanos!);
        }
    }
    return [...merged.values()];
}

/** What samples that are alike have in common. */
function createKeys(): (sample: Sample) => number | string {
    const known = new Map<Attributes, string>(); // those of a span are often one object
    return ({ stack, link, attributes }) => {
        if (!link && !attributes) {
            return stack;
        }
        let text = "";
        if (attributes) {
            text = known.get(attributes) ?? JSON.stringify(Object.entries(attributes).sort(byName));
            known.set(attributes, text);
        }
        return `${stack} ${link?.traceId} ${link?.spanId} ${text}`;
    };
}

function byName(a: [string, unknown], b: [string, unknown]): number {
    return a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0;
}

/** What the formats have: whole numbers that a double holds exactly. */
export function wholeNumber(value: number): number {
    return Number.isFinite(value)
        ? Math.min(Math.max(Math.round(value), 0), Number.MAX_SAFE_INTEGER)
        : 0;
}

/** A parent is older than its child: anything else would never end. */
export function parentOf(stacks: Stacks, stack: number): number {
    const parent = stacks.parent[stack] ?? 0;
    return parent > 0 && parent < stack ? parent : 0;
}
