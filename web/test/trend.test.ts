import { describe, expect, it } from "vitest";
import { judge, trendOf, worst } from "../src/core/trend";

const MIN = 60e3;
const line = (n: number, f: (i: number) => number) =>
    Array.from({ length: n }, (_, i) => ({ t: i * 5 * MIN, v: f(i) }));

describe("a trend", () => {
    it("is a line through points, per hour", () => {
        const t = trendOf(line(13, (i) => 100 + i))!;
        expect(t.slope).toBeCloseTo(12);
        expect(t.r2).toBeCloseTo(1);
        expect(t.first).toBeCloseTo(100);
        expect(t.last).toBeCloseTo(112);
        expect(t.spanMs).toBe(60 * MIN);
    });
    it("does not mind gaps", () => {
        const t = trendOf(line(40, (i) => 7 * i).filter((_, i) => i < 5 || i > 30))!;
        expect(t.slope).toBeCloseTo(84);
        expect(t.r2).toBeCloseTo(1);
    });
    it("of a constant is flat and fits", () => {
        const t = trendOf(line(10, () => 5))!;
        expect(t.slope).toBe(0);
        expect(t.r2).toBe(1);
    });
    it("of one point is flat, of none is none", () => {
        expect(trendOf([{ t: 5, v: 3 }])).toMatchObject({ n: 1, slope: 0, first: 3, last: 3 });
        expect(trendOf([])).toBeNull();
        expect(trendOf([{ t: Number.NaN, v: 3 }])).toBeNull();
    });
    it("of points at one time has no slope", () => {
        const t = trendOf([
            { t: 5, v: 3 },
            { t: 5, v: 9 },
        ])!;
        expect(t.slope).toBe(0);
        expect(t.r2).toBe(0);
    });
});

describe("a verdict", () => {
    it("leak: grows, and still does", () => {
        const j = judge(line(36, (i) => 100 + 3 * i));
        expect(j.verdict).toBe("leak");
        expect(j.growth).toBeCloseTo(1.05);
    });
    it("plateau: grew and stopped", () => {
        expect(judge(line(36, (i) => 100 + 50 * (1 - Math.exp(-i / 4)))).verdict).toBe("plateau");
    });
    it("flat: small changes are noise", () => {
        expect(judge(line(36, (i) => 100 + (i % 2))).verdict).toBe("flat");
    });
    it("shrinking, unclear", () => {
        expect(judge(line(36, (i) => 200 - 3 * i)).verdict).toBe("shrinking");
        expect(judge(line(36, (i) => 100 + i + 80 * (i % 3))).verdict).toBe("unclear");
    });
    it("unknown: few points, or too short", () => {
        expect(judge(line(3, (i) => 100 * i)).verdict).toBe("unknown");
        expect(judge(line(30, (i) => i).map((p) => ({ ...p, t: p.t / 60 }))).verdict).toBe(
            "unknown",
        );
        expect(judge([]).verdict).toBe("unknown");
        expect(judge(line(20, () => 0)).verdict).toBe("flat");
    });
    it("of several is the heaviest", () => {
        const all = [judge(line(36, () => 5)), judge(line(36, (i) => 100 + 3 * i))];
        expect(worst(all)?.verdict).toBe("leak");
        expect(worst([])).toBeNull();
    });
});
