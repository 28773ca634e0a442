// Times as the server takes them ("now-1h", RFC 3339, numbers) and as people read them.

const UNITS: Record<string, number> = {
    ms: 1,
    s: 1e3,
    m: 60e3,
    h: 3600e3,
    d: 86400e3,
    w: 7 * 86400e3,
};

/** Milliseconds since 1970; NaN for what is no time. */
export function parseTime(text: string, now: number): number {
    const t = text.trim();
    if (t === "now") return now;
    const back = /^now([+-])(\d+(?:\.\d+)?)(ms|s|m|h|d|w)$/.exec(t);
    if (back) return now + (back[1] === "-" ? -1 : 1) * Number(back[2]) * UNITS[back[3]];
    if (/^\d+(\.\d+)?$/.test(t)) {
        const n = Number(t);
        return n < 1e11 ? n * 1e3 : n < 1e14 ? n : n < 1e17 ? n / 1e3 : n / 1e6;
    }
    return Date.parse(t);
}

export function isRelative(text: string): boolean {
    return text.trim().startsWith("now");
}

/** For addresses and the server. */
export function timeParam(ms: number): string {
    return new Date(Math.round(ms)).toISOString();
}

/** "1 h", "15 min", "2.5 d" */
export function spanText(ms: number): string {
    const steps: [number, string][] = [
        [86400e3, "d"],
        [3600e3, "h"],
        [60e3, "min"],
        [1e3, "s"],
        [1, "ms"],
    ];
    const a = Math.abs(ms);
    const [size, unit] = steps.find(([s]) => a >= s) ?? [1, "ms"];
    return `${Number((ms / size).toFixed(1))} ${unit}`;
}

/** "3 min ago", "in 2 h" */
export function agoText(ms: number, now: number): string {
    const d = now - ms;
    if (Math.abs(d) < 5e3) return "just now";
    return d > 0 ? `${spanText(d)} ago` : `in ${spanText(-d)}`;
}

const two = (n: number) => String(n).padStart(2, "0");

/** Local time, with the day when it is not today's; seconds when the range is short. */
export function clockText(ms: number, now: number, withSeconds = false): string {
    const d = new Date(ms);
    if (Number.isNaN(d.getTime())) return "–";
    const clock = `${two(d.getHours())}:${two(d.getMinutes())}${withSeconds ? `:${two(d.getSeconds())}` : ""}`;
    const isToday = new Date(now).toDateString() === d.toDateString();
    return isToday
        ? clock
        : `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${clock}`;
}

/** "last 1 h", or "14:00 – 15:30" */
export function rangeText(from: string, until: string, now: number): string {
    if (until === "now" && from.startsWith("now-")) {
        const ms = now - parseTime(from, now);
        return `last ${spanText(ms)}`;
    }
    const a = parseTime(from, now);
    const b = parseTime(until, now);
    const short = b - a < 600e3;
    const sameDay = new Date(a).toDateString() === new Date(b).toDateString();
    return `${clockText(a, now, short)} – ${clockText(b, sameDay ? b : now, short)}`;
}

/** The period of the same length that ends where this one begins. */
export function periodBefore(from: string, until: string, now: number): [string, string] {
    const a = parseTime(from, now);
    const b = parseTime(until, now);
    return [timeParam(a - (b - a)), timeParam(a)];
}

/** The beginning of a range that ends at the same time and is `factor` times as long. */
export function widerFrom(from: string, until: string, factor: number, now: number): string {
    const back = /^now-(\d+)(ms|s|m|h|d|w)$/.exec(from.trim());
    if (back && until.trim() === "now") return `now-${Number(back[1]) * factor}${back[2]}`;
    const b = parseTime(until, now);
    return timeParam(b - factor * (b - parseTime(from, now)));
}
