// Where the axes of a chart over time have their labels: at round times of the local clock, and at
// values that are round in the unit that people read.

import { clockText } from "./time";
import { ladderOf, threeDigits } from "./units";

export interface Tick {
    at: number;
    text: string;
}

// ---- Values

/** The smallest of 1, 2, 5, 10, 20, ... that is not less. */
function decimalStep(rough: number): number {
    const power = 10 ** Math.floor(Math.log10(rough));
    const factor = [1, 2, 5].find((f) => f * power >= rough * (1 - 1e-9)) ?? 10;
    return factor * power;
}

type Units = readonly [number, string][]; // the largest first

/** Round in its unit: bytes by powers of two, all else 1, 2, 5; never 50 s, but 1 min. */
function stepOf(rough: number, units: Units): number {
    if (units.some(([, name]) => name === "B"))
        return 2 ** Math.max(0, Math.ceil(Math.log2(rough)));
    const found = units.findIndex(([size]) => size <= rough);
    const i = found < 0 ? units.length - 1 : found;
    const step = decimalStep(rough / units[i][0]) * units[i][0];
    const next = units[i - 1]?.[0] ?? Number.POSITIVE_INFINITY;
    return step > next / 1.9 ? next : step;
}

/** The same unit for all, the largest that says each of them in two decimals. */
function unitOf(values: readonly number[], units: Units): [number, string] {
    const top = Math.max(...values.map(Math.abs));
    const isExact = (v: number) => Math.abs(v * 100 - Math.round(v * 100)) < 1e-6 * Math.abs(v);
    const fits = units.find(
        ([size]) => size <= top * (1 + 1e-9) && values.every((v) => v === 0 || isExact(v / size)),
    );
    return fits ?? units[units.length - 1];
}

function figure(v: number): string {
    return Math.abs(v) < 1e6 ? threeDigits(v) : v.toExponential(1).replace(/\.0|\+/g, "");
}

/** Labels for values from `lo` to `hi`, at most so many steps. Zero has no unit. */
export function valueTicks(lo: number, hi: number, unit: string, steps: number): Tick[] {
    const ladder = ladderOf(unit) ?? { factor: 1, steps: [[1, unit]] as Units };
    const rough = ((hi - lo) * ladder.factor) / Math.max(1, steps);
    if (!(rough > 0) || !Number.isFinite(rough)) return [{ at: 0, text: "0" }];
    const step = stepOf(rough, ladder.steps);
    const first = Math.ceil((lo * ladder.factor) / step - 1e-9);
    const last = Math.floor((hi * ladder.factor) / step + 1e-9);
    const values = Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step);
    const [size, name] = unitOf(values, ladder.steps);
    return values.map((v) => {
        const text = v === 0 ? "0" : `${figure(v / size)} ${name}`.trim();
        return { at: v / ladder.factor, text };
    });
}

// ---- Times

const MIN = 60;
const HOUR = 3600;
const DAY = 86400;
const SECONDS = [1, 2, 5, 10, 15, 30, MIN, 2 * MIN, 5 * MIN, 10 * MIN, 15 * MIN, 30 * MIN, HOUR];
const HOURS = [2, 3, 6, 12];
const DAYS = [1, 2, 7, 14];
const MONTHS = [1, 3, 6];
const MONTH_NAMES = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");

const daysSince1970 = (d: Date) =>
    Math.floor(Date.UTC(d.getFullYear(), d.getMonth(), d.getDate()) / 1e3 / DAY);

/** The i-th round time, by the local clock, counted from one at or before `start`. */
type Walk = (start: Date, i: number) => Date;

/** Hours by the clock on the wall: when it is put forward or back, days still begin at midnight. */
const byHours =
    (n: number): Walk =>
    (s, i) =>
        new Date(s.getFullYear(), s.getMonth(), s.getDate(), i * n);

/** Weeks begin on Mondays: 1970 began with a Thursday. */
const byDays =
    (n: number): Walk =>
    (s, i) => {
        const past = (daysSince1970(s) + (n % 7 === 0 ? 3 : 0)) % n;
        return new Date(s.getFullYear(), s.getMonth(), s.getDate() - past + i * n);
    };

const byMonths =
    (n: number): Walk =>
    (s, i) => {
        const year = s.getFullYear();
        const month = n > 11 ? 0 : s.getMonth();
        const whole = year * 12 + month;
        return new Date(0, whole - (whole % n) + i * n - 1900 * 12, 1);
    };

/** How to walk in steps not shorter than `rough` seconds, for all that is longer than an hour. */
function walkOf(rough: number): { walk: Walk; text: (d: Date) => string } {
    const day = (d: Date) => `${MONTH_NAMES[d.getMonth()]} ${d.getDate()}`;
    const month = (d: Date) =>
        d.getMonth() === 0 ? String(d.getFullYear()) : MONTH_NAMES[d.getMonth()];
    const hours = HOURS.find((n) => n * HOUR >= rough);
    if (hours) return { walk: byHours(hours), text: (d) => clockText(+d, +d) };
    const days = DAYS.find((n) => n * DAY >= rough);
    if (days) return { walk: byDays(days), text: day };
    const months = MONTHS.find((n) => n * 30 * DAY >= rough);
    if (months) return { walk: byMonths(months), text: month };
    const years = decimalStep(Math.max(1, rough / (365 * DAY)));
    return { walk: byMonths(12 * years), text: month };
}

/** Within hours: seconds are counted, so that the hour that comes twice has its labels twice. */
function shortTimes(from: number, until: number, step: number): number[] {
    const behind = new Date(from * 1e3).getTimezoneOffset() * MIN;
    const first = Math.ceil((from - behind) / step - 1e-9);
    const last = Math.floor((until - behind) / step + 1e-9);
    return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step + behind);
}

function longTimes(from: number, until: number, walk: Walk): number[] {
    const start = new Date(from * 1e3);
    const out: number[] = [];
    for (let i = 0; i < 1000; i++) {
        const at = +walk(start, i) / 1e3;
        if (at > until) break;
        if (at >= from && at !== out[out.length - 1]) out.push(at);
    }
    return out;
}

/** Clock times; the day is said where it begins. */
function clockTexts(times: number[], plain: (d: Date) => string): Tick[] {
    return times.map((at, i) => {
        const d = new Date(at * 1e3);
        const isNewDay = i > 0 && new Date(times[i - 1] * 1e3).getDate() !== d.getDate();
        const isMidnight = d.getHours() === 0 && d.getMinutes() === 0 && d.getSeconds() === 0;
        const isDay = isNewDay || (isMidnight && d.getMilliseconds() === 0);
        return { at, text: isDay ? `${MONTH_NAMES[d.getMonth()]} ${d.getDate()}` : plain(d) };
    });
}

/** Labels for times (seconds since 1970) from `from` to `until`, at most so many steps. */
export function timeTicks(from: number, until: number, steps: number): Tick[] {
    const rough = (until - from) / Math.max(1, steps);
    if (!(rough > 0) || !(Math.abs(from) + Math.abs(until) < 8e12)) return [];
    if (rough > HOUR) {
        const { walk, text } = walkOf(rough);
        return clockTexts(longTimes(from, until, walk), text).map((t) =>
            // Where days or more are the steps, each label is one already.
            rough > 12 * HOUR ? { at: t.at, text: text(new Date(t.at * 1e3)) } : t,
        );
    }
    const step = rough < 1 ? Math.max(1e-3, decimalStep(rough)) : SECONDS.find((s) => s >= rough);
    const size = step ?? HOUR;
    const digits = size >= 1 ? 0 : size >= 0.1 ? 1 : size >= 0.01 ? 2 : 3;
    return clockTexts(shortTimes(from, until, size), (d) => {
        const part = digits ? (d.getMilliseconds() / 1e3).toFixed(digits).slice(1) : "";
        return clockText(+d, +d, size < MIN) + part;
    });
}
