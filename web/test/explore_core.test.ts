import { describe, expect, it } from "vitest";
import { cliCommand, csvText, shellWord } from "../src/core/export_text";
import { filterText, PRESETS } from "../src/core/filter_presets";
import type { FrameTree, Hidden } from "../src/core/frame_tree";
import { nodeAt, pathOf } from "../src/core/frame_tree";
import { exactRegex } from "../src/core/regex";
import { widerFrom } from "../src/core/time";
import { MAX_LINES, timelineColumns } from "../src/core/timeline";
import { shapeOf, totalsOf } from "../src/core/tree_decode";
import { graft } from "../src/core/tree_graft";
import { emptyState } from "../src/core/url";
import { waitsOf } from "../src/core/waits";

/** A tree from rows of [name, children, self, before?], breadth first. */
function tree(
    rows: [string, number, number, number?][],
    hidden: [number, Hidden][] = [],
    cutNodes = 0,
): FrameTree {
    const n = rows.length;
    const children = Uint32Array.from(rows, (r) => r[1]);
    const self = Float64Array.from(rows, (r) => r[2]);
    const before = rows[0][3] === undefined ? null : Float64Array.from(rows, (r) => r[3] ?? 0);
    const shape = shapeOf(children);
    const map = new Map(hidden);
    const texts = () => new Array<string>(n).fill("");
    const total = totalsOf(self, shape.parent, map, "value");
    return {
        n,
        ...shape,
        children,
        frame: Uint32Array.from(rows, (_, i) => i),
        self,
        total,
        before: before && { self: before, total: totalsOf(before, shape.parent, map, "before") },
        isSure: null,
        hidden: map,
        frames: {
            n,
            name: rows.map((r) => r[0]),
            file: texts(),
            line: new Uint32Array(n),
            binary: texts(),
            build: texts(),
            kind: texts(),
        },
        head: {
            type: "cpu",
            unit: "count",
            types: [],
            total: total[0],
            cut_nodes: cutNodes,
            cut: hidden.reduce((sum, [, h]) => sum + h.value, 0),
            max_depth: shape.rows.length - 2,
        },
    };
}

describe("graft", () => {
    const base = tree(
        [
            ["root", 2, 0],
            ["a", 1, 1],
            ["b", 0, 4],
            ["c", 0, 2],
        ],
        [[3, { children: 2, value: 3, before: 0 }]],
        2,
    );
    const branch = tree([
        ["c", 2, 2],
        ["d", 0, 2],
        ["e", 0, 1],
    ]);

    it("puts what was hidden into its place and keeps every sum", () => {
        const t = graft(base, 3, branch);
        expect(t.n).toBe(6);
        expect(t.total[0]).toBe(base.total[0]);
        const d = nodeAt(t, ["a", "c", "d"]);
        expect(d.isWhole).toBe(true);
        expect(t.self[d.node]).toBe(2);
        expect(pathOf(t, nodeAt(t, ["a", "c", "e"]).node)).toEqual(["a", "c", "e"]);
        expect(nodeAt(t, ["b"]).isWhole).toBe(true);
        expect(t.hidden.size).toBe(0);
        expect(t.head.cut_nodes).toBe(0);
        expect(t.head.cut).toBe(0);
        expect([...t.rows]).toEqual([0, 1, 3, 4, 6]);
    });

    it("keeps what is hidden elsewhere, and takes a root", () => {
        const cut = tree(
            [
                ["c", 1, 2],
                ["d", 0, 2],
            ],
            [[0, { children: 1, value: 1, before: 0 }]],
        );
        const t = graft(base, 3, cut);
        expect(t.total[0]).toBe(base.total[0]);
        expect(t.head.cut).toBe(1);
        const whole = graft(base, 0, base);
        expect([...whole.total]).toEqual([...base.total]);
        expect(whole.hidden.get(3)?.value).toBe(3);
    });
});

describe("waits", () => {
    it("is wall minus CPU where that is left, hidden parts too", () => {
        const t = tree(
            [
                ["root", 2, 0, 0],
                ["run", 0, 10, 12],
                ["lock", 0, 30, 1],
            ],
            [[0, { children: 1, value: 5, before: 2 }]],
        );
        const w = waitsOf(t);
        expect([...w.self]).toEqual([0, 0, 29]);
        expect(w.total[0]).toBe(32);
        expect(w.head.total).toBe(32);
        expect(w.before).toBeNull();
    });
});

describe("timeline", () => {
    const answer = (groups: number, starts: number[], value = 1) => ({
        from_ns: "0",
        until_ns: "100000000000",
        step_ns: "1000000000",
        all_groups: groups,
        groups: Array.from({ length: groups }, (_, i) => ({
            labels: groups > 1 ? { pod: `p${i}` } : ({} as Record<string, string>),
            total: groups - i,
        })),
        points: {
            group: starts.flatMap(() => Array.from({ length: groups }, (_, g) => g)),
            start_ns: starts.flatMap((s) => Array.from({ length: groups }, () => `${s}000000000`)),
            value: starts.flatMap(() => Array.from({ length: groups }, () => value)),
        },
    });

    it("has holes where nothing came in for longer than usual", () => {
        const t = timelineColumns(answer(1, [0, 5, 10, 40, 45]));
        expect(t.x).toEqual([0, 5, 10, 15, 40, 45]);
        expect(t.lines[0].values).toEqual([1, 1, 1, null, 1, 1]);
    });

    it("draws seven groups and the rest as one", () => {
        const t = timelineColumns(answer(10, [0, 5]));
        expect(t.lines).toHaveLength(MAX_LINES + 1);
        expect(t.lines[MAX_LINES].label).toBe("others (3)");
        expect(t.lines[MAX_LINES].values).toEqual([3, 3]);
        expect(new Set(t.lines.map((l) => l.slot)).size).toBe(MAX_LINES + 1);
    });

    it("is empty without points", () => {
        expect(timelineColumns(answer(0, [])).lines).toEqual([]);
        expect(timelineColumns(answer(1, [])).x).toEqual([]);
    });
});

describe("texts for elsewhere", () => {
    it("quotes for shells and spreadsheets", () => {
        expect(shellWord("a'b")).toBe("'a'\\''b'");
        expect(shellWord("now-1h")).toBe("now-1h");
        expect(csvText([["=1+1", 'a"b', 3]])).toBe(`'=1+1,"a""b",3\n`);
    });

    it("says the same question as a command", () => {
        const s = emptyState("explore");
        s.scope.service = "shop";
        s.scope.type = "cpu";
        s.view.filters = [{ kind: "focus", value: "a b" }];
        expect(cliCommand(s, "http://h:1")).toBe(
            `vesta top 'cpu{service.name="shop"}' --from now-1h --until now '-focus=a b' --url http://h:1`,
        );
        s.scope.service = "";
        s.view.filters = [
            { kind: "tagfocus", value: "lock.kind=^mutex$" },
            { kind: "tagignore", value: "a=^b$" },
            { kind: "tagfocus", value: "http.route=^/a$" },
        ];
        expect(cliCommand(s, "http://h:1")).toBe(
            "vesta top cpu --from now-1h --until now '-tagfocus=^lock\\.kind:mutex$,^http\\.route:/a$' '-tagignore=a=^b$' --url http://h:1",
        );
    });
});

describe("filters and ranges", () => {
    it("names presets, and others as they are", () => {
        expect(filterText(PRESETS[0].filter)).toBe(PRESETS[0].title);
        expect(filterText({ kind: "hide", value: "x" })).toBe("hide: x");
        expect(filterText({ kind: "hide", value: "^a.b$" })).toBe("hide: ^a.b$");
        expect(filterText({ kind: "focus", value: exactRegex("a.(*B)") })).toBe("focus: a.(*B)");
        for (const p of PRESETS) expect(() => new RegExp(p.filter.value)).not.toThrow();
    });

    it("names filters by an exact value of an attribute by that value", () => {
        const text = (value: string) => filterText({ kind: "tagfocus", value });
        expect(text("lock.kind=^mutex$")).toBe("tagfocus: lock.kind=mutex");
        expect(text("route=^/a\\x2cb\\.\\(c\\)$")).toBe("tagfocus: route=/a,b.(c)");
        for (const other of ["lock.kind=mutex", "^x$", "a=^b.*$", "a=^b\\d$", "size=4bytes:5bytes"])
            expect(text(other)).toBe(`tagfocus: ${other}`);
    });

    it("means exactly one name", () => {
        const re = new RegExp(exactRegex("a.(*B).c[int]"));
        expect(re.test("a.(*B).c[int]")).toBe(true);
        expect(re.test("xa.(*B).c[int]")).toBe(false);
    });

    it("widens a range to its beginning", () => {
        expect(widerFrom("now-15m", "now", 4, 0)).toBe("now-60m");
        expect(widerFrom("1970-01-01T01:00:00Z", "1970-01-01T02:00:00Z", 4, 0)).toBe(
            "1969-12-31T22:00:00.000Z",
        );
    });
});
