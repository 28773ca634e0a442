import { describe, expect, it } from "vitest";
import { filterParams, type Tag, type Tags } from "../src/api/questions";
import { emptyView } from "../src/core/url";
import { tagRows } from "../src/pages/explore/views/sample_values";
import { SAMPLES, SERIES, splitOptions } from "../src/pages/explore/views/split_choice";

const tag: Tag = {
    name: "lock.kind",
    filter: "lock.kind=.*",
    total: 90,
    not_set: 10,
    other: 5,
    repeated: 0,
    all_values: 4,
    values: [
        { value: "mutex", total: 80, filter: "lock.kind=^mutex$" },
        { value: "", total: 5 },
    ],
};

describe("attributes of samples", () => {
    it("adds up to the whole in rows", () => {
        const rows = tagRows(tag);
        expect(rows.map((r) => [r.name, r.total])).toEqual([
            ["mutex", 80],
            ["", 5],
            ["(2 more values)", 5],
            ["(not set)", 10],
        ]);
        expect(rows.reduce((sum, r) => sum + r.total, 0)).toBe(100);
    });

    it("filters by a value, by none, and not by what has no filter", () => {
        const [mutex, empty, , notSet] = tagRows(tag);
        expect(mutex.only).toEqual({ kind: "tagfocus", value: "lock.kind=^mutex$" });
        expect(mutex.without).toEqual({ kind: "tagignore", value: "lock.kind=^mutex$" });
        expect(notSet.only).toEqual({ kind: "tagignore", value: "lock.kind=.*" });
        expect(notSet.without).toEqual({ kind: "tagfocus", value: "lock.kind=.*" });
        expect(empty.only).toBeUndefined();
    });

    it("has a row for what is not set only where something is not", () => {
        const rows = tagRows({ ...tag, not_set: 0, all_values: 2, other: 0 });
        expect(rows.map((r) => r.name)).toEqual(["mutex", ""]);
    });

    it("stands beside labels in the list, in a group of its own", () => {
        const options = splitOptions(["pod"], { tags: [tag] } as unknown as Tags);
        expect(options.map((o) => [o.text, o.group, o.note])).toEqual([
            ["pod", SERIES, undefined],
            ["lock.kind", SAMPLES, "4 values"],
        ]);
        expect(splitOptions(["pod"], undefined)).toHaveLength(1);
    });

    it("sends all filters by attributes, and one of the others", () => {
        const filters = [
            { kind: "tagfocus" as const, value: "a=1" },
            { kind: "focus" as const, value: "x" },
            { kind: "tagfocus" as const, value: "b=2" },
            { kind: "focus" as const, value: "y" },
        ];
        expect(filterParams({ ...emptyView(), filters })).toEqual({
            tagfocus: ["a=1", "b=2"],
            focus: "y",
        });
    });
});
