// Profiles that are wrong, extreme or mean, each as a service of its own.

import { makePprof } from "./pprof.mjs";

const CPU = [["samples", "count"], ["cpu", "nanoseconds"]];
const of = (n, ...frames) => ({ frames, values: [n, n * 10_000_000] });

export const NAMES = {
    empty: "",
    long: `long::${"x".repeat(64 * 1024)}`,
    rtl: "שלום::עולם‮evil",
    emoji: "🔥render👩‍👩‍👧‍👦::naïve",
    html: '<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>&lt;b&gt;',
    entity: "std::vector<int, alloc<int>>::push_back(int&&) const&",
    quotes: "a\"b'c`${1}\\n{{x}}",
};

function deep() {
    const frames = Array.from({ length: 2000 }, (_, i) => `level_${i}`);
    return [of(500, ...frames), of(20, ...frames.slice(0, 1000), "side")];
}

/** [service, bytes, the answer's total or null] */
export function hostileProfiles(startMs) {
    const make = (stacks, more = {}) => makePprof({ types: CPU, period: 10_000_000, startMs, stacks, ...more });
    return [
        ["h-one", make([of(1, "only")])],
        ["h-deep", make(deep())],
        ["h-names", make(Object.values(NAMES).map((name, i) => of(100 + i, "main", name, `leaf ${i}`)))],
        ["h-zero", make([{ frames: ["main", "zero"], values: [0, 0] }])],
        ["h-thin", make([of(3, "main", "few")])],
        ["h-gaps", make([of(200, "main", "early")])],
    ];
}

/** A million functions under one caller, as text. */
export function million(n = 1_000_000) {
    const lines = [];
    for (let i = 0; i < n; i++) lines.push(`root;f${i} ${1 + (i % 7)}`);
    return Buffer.from(lines.join("\n"));
}

export async function seedHostile(server) {
    const now = Date.now();
    for (const [service, bytes] of hostileProfiles(now - 10 * 60_000))
        await server.push(bytes, { "service.name": service });
    // A gap of an hour, and clocks that are wrong in either direction.
    const again = makePprof({ types: CPU, period: 10_000_000, startMs: now - 80 * 60_000, stacks: [of(300, "main", "late")] });
    await server.push(again, { "service.name": "h-gaps" });
    const future = makePprof({ types: CPU, period: 10_000_000, startMs: now + 30 * 60_000, stacks: [of(300, "main", "tomorrow")] });
    await server.push(future, { "service.name": "h-future" });
}
