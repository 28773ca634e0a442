// Whether something grows: a line through points (least squares), how well it fits, and what that
// means for memory. Gaps are allowed: only points that are there count.

export interface Point {
    t: number; // ms
    v: number;
}

export interface Trend {
    n: number;
    slope: number; // per hour
    r2: number; // 1: on the line; a constant is perfectly flat: 1
    first: number; // the line's value at the first and the last point
    last: number;
    mean: number;
    spanMs: number;
}

const HOUR = 3600e3;

/** null: no points. One point, or all at one time: flat. */
export function trendOf(points: readonly Point[]): Trend | null {
    const p = points.filter((x) => Number.isFinite(x.t) && Number.isFinite(x.v));
    const n = p.length;
    if (n === 0) return null;
    const meanT = p.reduce((s, x) => s + x.t, 0) / n;
    const mean = p.reduce((s, x) => s + x.v, 0) / n;
    let tt = 0;
    let tv = 0;
    let vv = 0;
    let first = p[0].t;
    let last = p[0].t;
    for (const x of p) {
        tt += (x.t - meanT) ** 2;
        tv += (x.t - meanT) * (x.v - mean);
        vv += (x.v - mean) ** 2;
        first = Math.min(first, x.t);
        last = Math.max(last, x.t);
    }
    const slope = tt === 0 ? 0 : tv / tt;
    const r2 = vv === 0 ? 1 : tt === 0 ? 0 : Math.min(1, tv ** 2 / (tt * vv));
    return {
        n,
        slope: slope * HOUR,
        r2,
        first: mean + slope * (first - meanT),
        last: mean + slope * (last - meanT),
        mean,
        spanMs: last - first,
    };
}

export type Verdict = "leak" | "plateau" | "flat" | "shrinking" | "unclear" | "unknown";

export interface Judgement {
    verdict: Verdict;
    trend: Trend | null;
    growth: number; // over the range, as a part of where it began
    late: Trend | null; // of the last half: does it still grow?
}

const MIN_POINTS = 6;
const MIN_SPAN = 10 * 60e3;
const SMALL = 0.05; // 5 % over the range are noise
const FITS = 0.6;
const STILL = 0.35; // of the whole's slope: less in the last half means it flattens

/** What a series of in-use memory looks like. */
export function judge(points: readonly Point[]): Judgement {
    const p = [...points].sort((a, b) => a.t - b.t);
    const trend = trendOf(p);
    const late = trendOf(p.slice(Math.floor(p.length / 2)));
    const none = { verdict: "unknown" as Verdict, trend, growth: 0, late };
    if (!trend || trend.n < MIN_POINTS || trend.spanMs < MIN_SPAN) return none;
    const from = Math.max(Math.abs(trend.first), Math.abs(trend.mean) * 0.01);
    const growth = from === 0 ? 0 : (trend.last - trend.first) / from;
    const say = (verdict: Verdict): Judgement => ({ verdict, trend, growth, late });
    if (Math.abs(growth) < SMALL) return say("flat");
    const lateSlope = late ? late.slope : 0;
    if (growth < 0) return say(trend.r2 >= FITS ? "shrinking" : "unclear");
    if (lateSlope < STILL * trend.slope) return say(trend.r2 >= 0.3 ? "plateau" : "unclear");
    return say(trend.r2 >= FITS ? "leak" : "unclear");
}

/** The heaviest judgement of several instances: one that leaks is enough. */
export function worst(all: readonly Judgement[]): Judgement | null {
    const order: Verdict[] = ["leak", "unclear", "plateau", "shrinking", "flat", "unknown"];
    return (
        [...all].sort(
            (a, b) =>
                order.indexOf(a.verdict) - order.indexOf(b.verdict) ||
                (b.trend?.slope ?? 0) - (a.trend?.slope ?? 0),
        )[0] ?? null
    );
}
