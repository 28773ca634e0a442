import { describe, expect, it } from "vitest";
import { recipes, waysTo } from "../src/core/addresses";
import { changeShare, costsOf, type TimelinePoints } from "../src/core/cost";

describe("addresses", () => {
    it("are the server's own", () => {
        const w = waysTo({ origin: "http://10.0.0.5:4040/", http_port: 4318, grpc_port: 4317 });
        expect(w).toMatchObject({
            url: "http://10.0.0.5:4040",
            otlpHttp: "http://10.0.0.5:4318",
            otlpGrpc: "http://10.0.0.5:4317",
        });
        expect(JSON.stringify(recipes(w))).not.toContain("YOUR_TOKEN");
    });

    it("follow what the operator said, with a path", () => {
        const w = waysTo({
            origin: "http://127.0.0.1:4040/",
            external_url: "https://x.test/vesta/",
        });
        expect(w.url).toBe("https://x.test/vesta");
        expect(w.otlpHttp).toBe("https://x.test/vesta");
    });

    it("have a place for the token where one is needed", () => {
        const all = recipes(waysTo({ origin: "http://h:1", needs_token: true }));
        for (const r of all)
            if (r.id !== "scrape") expect(JSON.stringify(r.commands)).toContain("YOUR_TOKEN");
    });
});

describe("costs", () => {
    const ns = (ms: number) => String(BigInt(ms) * 1_000_000n);
    it("part the range into before and now", () => {
        const t: TimelinePoints = {
            groups: [
                { labels: { "service.name": "a" }, total: 60 },
                { labels: {}, total: 5 },
            ],
            points: {
                group: [0, 0, 0, 1, 7],
                start_ns: [ns(10), ns(100), ns(199), ns(150), ns(150)],
                value: [10, 20, 30, 5, 99],
            },
        };
        expect(costsOf(t, 0, 200, 2)).toEqual([
            { service: "a", now: 50, before: 10, bars: [20, 30] },
            { service: "", now: 5, before: 0, bars: [0, 5] },
        ]);
    });

    it("say changes as people do", () => {
        expect(changeShare(110, 100)).toBe("+10 %");
        expect(changeShare(99.5, 100)).toBe("−0.5 %");
        expect(changeShare(5, 0)).toBe("new");
        expect(changeShare(0, 0)).toBe("–");
        expect(changeShare(5000, 100)).toBe("× 50");
    });
});
