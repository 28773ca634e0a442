import { describe, expect, it } from "vitest";
import { troublesOf } from "../src/core/agent_health";
import { byLabel, parseCounters } from "../src/core/counters";
import { storedScope } from "../src/api/facts";

const NOW = Date.parse("2026-03-01T12:00:00Z");

describe("health of agents", () => {
    const fine = {
        version: "1.0.0",
        mode: "normal",
        samples: 1000,
        lost: 0,
        cpu_percent: 0.5,
        skew_ns: "120000000",
        last_seen: "2026-03-01T11:59:40Z",
    };
    const ids = (more: object) => troublesOf({ ...fine, ...more }, NOW, "1.0.0").map((t) => t.id);

    it("has nothing to say of one that is fine", () => {
        expect(ids({})).toEqual([]);
        expect(ids({ samples: 0, cpu_percent: undefined, skew_ns: undefined })).toEqual([]);
    });

    it("names what is wrong", () => {
        expect(ids({ last_seen: "2026-03-01T11:50:00Z" })).toEqual(["silent"]);
        expect(ids({ skew_ns: "-95000000000" })).toEqual(["skew"]);
        expect(ids({ lost: 100 })).toEqual(["lost"]);
        expect(ids({ cpu_percent: 7 })).toEqual(["cpu"]);
        expect(ids({ version: "0.9.0" })).toEqual(["version"]);
        const [skew] = troublesOf({ ...fine, skew_ns: "-95000000000" }, NOW, "");
        expect(skew.text).toBe("clock 95 s behind");
    });
});

describe("counters", () => {
    const text = [
        "# HELP vesta_rejects_total What was refused, and why",
        "# TYPE vesta_rejects_total counter",
        'vesta_rejects_total{reason="too_large"} 3',
        'vesta_rejects_total{reason="a \\"quoted\\" one, with {}"} 12',
        "vesta_ingest_spans_total 7",
        'vesta_query_seconds_bucket{route="/x",le="+Inf"} 1',
        "nonsense",
        "x{} NaN",
        "",
    ].join("\n");

    it("are read from the text that Prometheus reads", () => {
        const all = parseCounters(text);
        expect(all).toHaveLength(4);
        expect(all[2]).toEqual({ name: "vesta_ingest_spans_total", labels: {}, value: 7 });
    });

    it("are listed by a label, the largest first", () => {
        expect(byLabel(parseCounters(text), "vesta_rejects_total", "reason")).toEqual([
            ['a "quoted" one, with {}', 12],
            ["too_large", 3],
        ]);
    });
});

describe("a file that was kept", () => {
    it("is found again by its label and its own time", () => {
        const stored = {
            format: "pprof",
            profiles: 1,
            stored: 1,
            duplicates: 0,
            rejected: 0,
            from_ns: "1772366400000000001",
            until_ns: "1772366410000000000",
            notes: [],
        };
        expect(storedScope(stored, "shop", "ab12", "cpu")).toMatchObject({
            service: "shop",
            type: "cpu",
            labels: [{ name: "vesta.upload", op: "=", value: "ab12" }],
            from: "2026-03-01T12:00:00.000Z",
            until: "2026-03-01T12:00:10.002Z",
        });
    });
});
