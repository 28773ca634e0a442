import { afterEach, describe, expect, it } from "vitest";
import { timeTicks, valueTicks } from "../src/core/time_ticks";

const MIB = 1024 ** 2;
const texts = (lo: number, hi: number, unit: string, steps = 3) =>
    valueTicks(lo, hi, unit, steps).map((t) => t.text);

describe("ticks of values", () => {
    it("of bytes are round in powers of two", () => {
        expect(texts(0, 40 * MIB, "bytes")).toEqual(["0", "16 MiB", "32 MiB"]);
        expect(texts(0, 1100 * MIB, "bytes")).toEqual(["0", "0.5 GiB", "1 GiB"]);
        expect(texts(0, 1100 * MIB, "bytes", 5)).toEqual([
            "0",
            "0.25 GiB",
            "0.5 GiB",
            "0.75 GiB",
            "1 GiB",
        ]);
        expect(texts(0, 3, "bytes", 9)).toEqual(["0", "1 B", "2 B", "3 B"]);
        expect(texts(0, 3000, "kilobytes")).toEqual(["0", "1 MiB", "2 MiB"]);
    });
    it("of times are 1, 2, 5 of the unit that fits all", () => {
        expect(texts(0, 42e6, "nanoseconds")).toEqual(["0", "20 ms", "40 ms"]);
        expect(texts(0, 1.6e9, "nanoseconds", 4)).toEqual(["0", "0.5 s", "1 s", "1.5 s"]);
        expect(texts(0, 90e9, "nanoseconds", 5)).toEqual(["0", "20 s", "40 s", "60 s", "80 s"]);
        expect(texts(0, 130, "seconds")).toEqual(["0", "1 min", "2 min"]);
        expect(texts(0, 30 * 3600, "seconds", 4)).toEqual(["0", "10 h", "20 h", "30 h"]);
    });
    it("of counts and of other units", () => {
        expect(texts(0, 7, "count")).toEqual(["0", "5"]);
        expect(texts(0, 1600, "count", 4)).toEqual(["0", "0.5 k", "1 k", "1.5 k"]);
        expect(texts(0, 12, "lemons")).toEqual(["0", "5 lemons", "10 lemons"]);
        expect(texts(0, 0.012, "lemons")).toEqual(["0", "0.005 lemons", "0.01 lemons"]);
    });
    it("are where they say, also below zero", () => {
        expect(valueTicks(-25e6, 25e6, "nanoseconds", 3)).toEqual([
            { at: -20e6, text: "−20 ms" },
            { at: 0, text: "0" },
            { at: 20e6, text: "20 ms" },
        ]);
    });
    it("of nothing, of zero and of no number are zero", () => {
        for (const hi of [0, Number.NaN, Number.POSITIVE_INFINITY])
            expect(valueTicks(0, hi, "bytes", 3)).toEqual([{ at: 0, text: "0" }]);
    });
    it("stay few and short however large or small the values", () => {
        for (const unit of ["count", "bytes", "nanoseconds", "lemon"])
            for (const hi of [1e-12, 1, 1e9, 1e18, 1e30, 1e300]) {
                const all = valueTicks(0, hi, unit, 3);
                expect(all.length).toBeLessThanOrEqual(4);
                for (const t of all) expect(t.text.length).toBeLessThan(16);
            }
    });
});

describe("ticks of times", () => {
    const zone = process.env.TZ;
    afterEach(() => {
        if (zone === undefined) delete process.env.TZ;
        else process.env.TZ = zone;
    });
    const ticks = (from: string, until: string, steps: number, tz: string) => {
        process.env.TZ = tz;
        return timeTicks(Date.parse(from) / 1e3, Date.parse(until) / 1e3, steps);
    };
    const words = (...a: Parameters<typeof ticks>) => ticks(...a).map((t) => t.text);

    it("are round by the local clock", () => {
        const range = ["2026-03-02T10:07:00Z", "2026-03-02T11:05:00Z"] as const;
        expect(words(...range, 4, "UTC")).toEqual(["10:15", "10:30", "10:45", "11:00"]);
        expect(words(...range, 4, "Asia/Kathmandu")).toEqual(["16:00", "16:15", "16:30", "16:45"]);
        const day = ["2026-03-02T10:07:00Z", "2026-03-02T22:05:00Z"] as const;
        expect(words(...day, 4, "Asia/Tokyo")).toEqual(["21:00", "Mar 3", "03:00", "06:00"]);
    });
    it("have seconds where the range is short", () => {
        const t = (s: string) => `2026-03-02T10:00:${s}Z`;
        expect(words(t("01"), t("21"), 5, "UTC")).toEqual([
            "10:00:05",
            "10:00:10",
            "10:00:15",
            "10:00:20",
        ]);
        expect(words(t("01.000"), t("01.900"), 2, "UTC")).toEqual(["10:00:01.0", "10:00:01.5"]);
    });
    it("are days, Mondays, months and years where it is long", () => {
        expect(words("2026-02-26T12:00:00Z", "2026-03-02T12:00:00Z", 4, "UTC")).toEqual([
            "Feb 27",
            "Feb 28",
            "Mar 1",
            "Mar 2",
        ]);
        expect(words("2026-03-01T00:00:00Z", "2026-03-20T00:00:00Z", 3, "UTC")).toEqual([
            "Mar 2",
            "Mar 9",
            "Mar 16",
        ]);
        expect(words("2025-11-05T00:00:00Z", "2026-02-05T00:00:00Z", 4, "UTC")).toEqual([
            "Dec",
            "2026",
            "Feb",
        ]);
        expect(words("1999-06-01T00:00:00Z", "2026-06-01T00:00:00Z", 3, "UTC")).toEqual([
            "2000",
            "2010",
            "2020",
        ]);
    });
    it("follow the clock when it is put forward or back", () => {
        const berlin = "Europe/Berlin";
        const spring = ["2026-03-28T22:30:00Z", "2026-03-29T10:30:00Z"] as const;
        expect(words(...spring, 4, berlin)).toEqual(["Mar 29", "03:00", "06:00", "09:00", "12:00"]);
        const autumn = ["2026-10-24T23:30:00Z", "2026-10-25T02:30:00Z"] as const;
        expect(words(...autumn, 4, berlin)).toEqual(["02:00", "02:00", "03:00"]);
        const at = ticks("2026-10-24T12:00:00Z", "2026-10-26T12:00:00Z", 2, berlin);
        expect(at.map((t) => t.text)).toEqual(["Oct 25", "Oct 26"]);
        expect(at[1].at - at[0].at).toBe(25 * 3600);
    });
    it("rise and stay few for any range", () => {
        process.env.TZ = "America/New_York";
        for (let span = 0.002; span < 2e9; span *= 1.7) {
            const all = timeTicks(1.77e9, 1.77e9 + span, 8);
            expect(all.length).toBeLessThanOrEqual(11);
            expect(all.every((t, i) => i === 0 || t.at > all[i - 1].at)).toBe(true);
        }
    });
    it("are none without a range", () => {
        expect(timeTicks(5, 5, 4)).toEqual([]);
        expect(timeTicks(Number.NaN, 5, 4)).toEqual([]);
        expect(timeTicks(0, 1e300, 4)).toEqual([]);
    });
});
