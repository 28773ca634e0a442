import { describe, expect, it } from "vitest";
import type { TimelineAnswer } from "../src/core/timeline";
import { asTimeline, instancesOf } from "../src/core/instances";
import { memoryTypes } from "../src/core/memory_types";

const bytes = (type: string) => ({ type, unit: "bytes" });
const count = (type: string) => ({ type, unit: "count" });

describe("types of memory", () => {
    it("of Go, Java, gperftools, V8", () => {
        const go = [
            count("alloc_objects"),
            bytes("alloc_space"),
            count("inuse_objects"),
            bytes("inuse_space"),
        ];
        expect(memoryTypes(go)).toEqual({
            held: "inuse_space",
            objects: "inuse_objects",
            allocated: "alloc_space",
        });
        expect(
            memoryTypes([count("live"), bytes("live_bytes"), bytes("alloc_in_new_tlab_bytes")]),
        ).toEqual({
            held: "live_bytes",
            objects: "live",
            allocated: "alloc_in_new_tlab_bytes",
        });
        expect(memoryTypes([count("objects"), bytes("space")]).held).toBe("space");
        expect(memoryTypes([bytes("heap_live_x")]).held).toBe("heap_live_x");
    });
    it("of a service without any", () => {
        expect(memoryTypes([{ type: "cpu", unit: "nanoseconds" }])).toEqual({
            held: "",
            objects: "",
            allocated: "",
        });
    });
});

describe("instances", () => {
    const t: TimelineAnswer = {
        from_ns: "0",
        until_ns: "3000000000",
        step_ns: "1000000000",
        all_groups: 3,
        groups: [
            { labels: { pod: "a", "service.version": "1" }, total: 0 },
            { labels: { pod: "a", "service.version": "2" }, total: 0 },
            { labels: { pod: "b" }, total: 0 },
        ],
        points: {
            group: [0, 0, 1, 1, 2],
            start_ns: ["0", "1000000000", "1000000000", "2000000000", "0"],
            value: [10, 12, 7, 8, 3],
        },
    };
    it("do not add up while a version changes", () => {
        const all = instancesOf(t, "pod");
        expect(all.map((i) => i.name)).toEqual(["a", "b"]);
        expect(all[0].points.map((p) => p.v)).toEqual([10, 12, 8]);
    });
    it("become a timeline again", () => {
        const again = asTimeline(t, instancesOf(t, "pod"));
        expect(again.all_groups).toBe(2);
        expect(again.groups[0]).toEqual({ labels: { instance: "a" }, total: 30 });
        expect(again.points.start_ns).toEqual(["0", "1000000000", "2000000000", "0"]);
    });
    it("without a label are one", () => {
        expect(instancesOf(t, "")).toHaveLength(1);
    });
});
