// Numbers as people read them: three significant digits, the unit apart so that it can be muted.

export interface Amount {
    figure: string; // "1.24"
    unit: string; // "s"
}

const TIMES: [number, string][] = [
    [86400e9, "d"],
    [3600e9, "h"],
    [60e9, "min"],
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "µs"],
    [1, "ns"],
];
const BYTES: [number, string][] = [
    [1024 ** 4, "TiB"],
    [1024 ** 3, "GiB"],
    [1024 ** 2, "MiB"],
    [1024, "KiB"],
    [1, "B"],
];
const COUNTS: [number, string][] = [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
    [1, ""],
];

/** How many nanoseconds, or bytes, the profile's unit is; what the ladder is. */
export function ladderOf(unit: string): { factor: number; steps: [number, string][] } | null {
    switch (unit) {
        case "nanoseconds":
        case "ns":
            return { factor: 1, steps: TIMES };
        case "microseconds":
        case "us":
            return { factor: 1e3, steps: TIMES };
        case "milliseconds":
        case "ms":
            return { factor: 1e6, steps: TIMES };
        case "seconds":
        case "s":
            return { factor: 1e9, steps: TIMES };
        case "bytes":
        case "By":
            return { factor: 1, steps: BYTES };
        case "kilobytes":
            return { factor: 1024, steps: BYTES };
        case "count":
        case "":
        case "1":
        case "samples":
        case "objects":
            return { factor: 1, steps: COUNTS };
        default:
            return null;
    }
}

/** At most three significant digits, no trailing zeros, no exponent. */
export function threeDigits(v: number): string {
    const a = Math.abs(v);
    if (!Number.isFinite(v)) return v > 0 ? "∞" : v < 0 ? "−∞" : "–";
    const digits = a >= 99.95 ? 0 : a >= 9.995 ? 1 : a >= 0.9995 ? 2 : a >= 0.0995 ? 3 : 4;
    const text = v.toFixed(digits);
    const short = text.includes(".") ? text.replace(/\.?0+$/, "") : text;
    return short === "-0" ? "0" : short.replace("-", "−");
}

export function amount(value: number, unit: string): Amount {
    const ladder = ladderOf(unit);
    if (!ladder) return { figure: threeDigits(value), unit };
    const base = value * ladder.factor;
    const a = Math.abs(base);
    // The step is chosen after rounding: 999.96 ms is 1 s.
    const step =
        ladder.steps.find(([size]) => a >= size * 0.9995) ?? ladder.steps[ladder.steps.length - 1];
    return { figure: threeDigits(base / step[0]), unit: step[1] };
}

/** "1.24 s" */
export function amountText(value: number, unit: string): string {
    const a = amount(value, unit);
    return a.unit ? `${a.figure} ${a.unit}` : a.figure;
}

/** With its sign, for changes. */
export function changeText(value: number, unit: string): string {
    return value > 0 ? `+${amountText(value, unit)}` : amountText(value, unit);
}

/** "38.2 %"; a total of zero has no shares. */
export function shareText(part: number, whole: number): string {
    if (whole === 0) return "–";
    const share = (100 * part) / whole;
    const a = Math.abs(share);
    if (a > 0 && a < 0.001) return share < 0 ? "> −0.001 %" : "< 0.001 %";
    return `${threeDigits(share)} %`;
}

/** 1234567 as "1,234,567". */
export function countText(n: number): string {
    return String(Math.round(n)).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}
