import { describe, expect, it } from "vitest";
import {
    aroundDeploy,
    differsByTimeOnly,
    earlier,
    earlierBy,
    labelAndRest,
    labelValues,
    previousPeriod,
} from "../src/core/starters";
import { parseTime } from "../src/core/time";
import { emptyScope } from "../src/core/url";

const now = Date.parse("2026-03-01T12:00:00Z");
const H = 3600e3;
const scope = { ...emptyScope(), service: "shop", type: "cpu" };

describe("what to compare with", () => {
    it("keeps relative times relative", () => {
        expect(earlier("now", 24 * H, now)).toBe("now-1d");
        expect(earlier("now-1h", 24 * H, now)).toBe("now-25h");
        expect(earlier("2026-03-01T11:00:00.000Z", H, now)).toBe("2026-03-01T10:00:00.000Z");
    });
    it("yesterday", () => {
        const s = earlierBy(scope, 24 * H, now);
        expect([s.base.from, s.base.until]).toEqual(["now-25h", "now-1d"]);
        expect(s.scope).toBe(scope);
        expect(differsByTimeOnly(s.base, s.scope)).toBe(true);
    });
    it("the period before", () => {
        expect(previousPeriod(scope, now).base).toMatchObject({ from: "now-2h", until: "now-1h" });
        const fixed = { ...scope, from: "2026-03-01T10:00:00Z", until: "2026-03-01T10:30:00Z" };
        expect(previousPeriod(fixed, now).base).toMatchObject({
            from: "2026-03-01T09:30:00.000Z",
            until: "2026-03-01T10:00:00.000Z",
        });
    });
    it("before and after a deployment, up to its neighbours", () => {
        const at = now - 2 * H;
        const s = aroundDeploy(scope, at, [at - 0.5 * H, at, at + 5 * H], now);
        expect(parseTime(s.base.from, now)).toBe(at - 0.5 * H);
        expect(parseTime(s.base.until, now)).toBe(at);
        expect(parseTime(s.scope.from, now)).toBe(at);
        expect(parseTime(s.scope.until, now)).toBe(at + H);
    });
    it("a deployment just now has a minute after it at least", () => {
        const s = aroundDeploy(scope, now, [now], now);
        expect(parseTime(s.scope.until, now)).toBe(now + 60e3);
    });
    it("labels", () => {
        const v = labelValues(
            { ...scope, labels: [{ name: "service.version", op: "=", value: "9" }] },
            "service.version",
            "1",
            "2",
        );
        expect(v.base.labels).toEqual([{ name: "service.version", op: "=", value: "1" }]);
        expect(v.scope.labels).toEqual([{ name: "service.version", op: "=", value: "2" }]);
        expect(labelAndRest(scope, "pod", "a").base.labels[0].op).toBe("!=");
        expect(differsByTimeOnly(v.base, v.scope)).toBe(false);
    });
});
