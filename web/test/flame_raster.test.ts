import { describe, expect, it } from "vitest";
import { Boxes, fillHidden, fillRow, type Strip } from "../src/core/flame_raster";
import { colourOf, type FlameOptions, isLit, sceneOf } from "../src/core/flame_scene";
import type { FrameTree } from "../src/core/frame_tree";
import { shapeOf, totalsOf } from "../src/core/tree_decode";
import { THEME } from "./flame_theme";
import { grow, type Wood } from "./tree_encode";

function options(tree: FrameTree, more: Partial<FlameOptions> = {}): FlameOptions {
    return {
        tree,
        theme: THEME,
        colour: "package",
        search: "",
        selected: "",
        diff: null,
        unit: "count",
        isIcicle: false,
        isRelative: false,
        ...more,
    };
}

const strip = (width: number, from = 0, to = 1): Strip => ({ from, to, width, gap: 1, wide: 6 });

function row(o: FlameOptions, depth: number, s: Strip) {
    const scene = sceneOf(o, null);
    const out = new Uint32Array(s.width);
    const boxes = new Boxes();
    fillRow(scene, depth, s, out, boxes);
    return { scene, out, boxes };
}

function siblings(n: number, self: (i: number) => number): FrameTree {
    const base = grow({
        name: "",
        children: [
            { name: "a::x", self: 1 },
            { name: "b::y", self: 1 },
        ],
    });
    const children = new Uint32Array(n + 1);
    children[0] = n;
    const shape = shapeOf(children);
    const values = Float64Array.from({ length: n + 1 }, (_, i) => (i === 0 ? 0 : self(i)));
    const frame = Uint32Array.from({ length: n + 1 }, (_, i) => (i === 0 ? 0 : 1 + (i % 2)));
    const total = totalsOf(values, shape.parent, new Map(), "value");
    return { ...base, ...shape, n: n + 1, children, frame, self: values, total };
}

describe("boxes as pixels", () => {
    const wood: Wood = {
        name: "",
        children: [
            { name: "one::a", self: 50 },
            { name: "two::b", self: 30 },
        ],
        self: 20,
    };

    it("fills boxes with a gap behind, and nothing where nothing is", () => {
        const { scene, out, boxes } = row(options(grow(wood)), 1, strip(100));
        expect(out[0]).toBe(colourOf(scene, 1));
        expect(out[48]).toBe(colourOf(scene, 1));
        expect(out[49]).toBe(0);
        expect(out[50]).toBe(colourOf(scene, 2));
        expect(out[79]).toBe(0);
        expect([...out.slice(80)].every((c) => c === 0)).toBe(true);
        expect(boxes.n).toBe(2);
        expect([boxes.left[1], boxes.right[1]]).toEqual([50, 79]);
    });

    it("draws only what is in the range", () => {
        const { scene, out, boxes } = row(options(grow(wood)), 1, strip(100, 0.5, 0.6));
        expect(boxes.n).toBe(1);
        expect(boxes.node[0]).toBe(2);
        expect(out[99]).toBe(colourOf(scene, 2));
    });

    it("leaves no pixel empty that has thin boxes in it", () => {
        const { out, boxes } = row(options(siblings(1_000_000, () => 1)), 1, strip(800));
        expect([...out].every((c) => c !== 0)).toBe(true);
        expect(boxes.n).toBe(0);
    });

    it("shows a thin box that stands alone", () => {
        const t = grow({ name: "", self: 1e6, children: [{ name: "thin", self: 1 }] });
        const { out } = row(options(t), 1, strip(100));
        expect(out[0]).not.toBe(0);
        expect([...out.slice(1)].every((c) => c === 0)).toBe(true);
    });

    it("looks at few boxes, however many there are", () => {
        const t = siblings(200_000, (i) => (i < 50 ? 1000 : 1));
        const scene = sceneOf(options(t), null);
        let reads = 0;
        const counted = new Proxy(scene.layout.x, {
            get(target, key) {
                reads++;
                return Reflect.get(target, key) as unknown;
            },
        });
        scene.layout.x = counted;
        fillRow(scene, 1, strip(400), new Uint32Array(400), new Boxes());
        expect(reads).toBeLessThan(2000);
    });

    it("marks the boxes of hidden children", () => {
        const t = grow({
            name: "",
            self: 10,
            children: [{ name: "a", self: 50 }],
            hidden: [7, 40],
        });
        const scene = sceneOf(options(t), null);
        const out = new Uint32Array(100);
        const boxes = new Boxes();
        fillHidden(scene.layout, 1, strip(100), out, 77, boxes);
        expect([...out.slice(50, 89)].every((c) => c === 77)).toBe(true);
        expect(out[49]).toBe(0);
        expect(out[95]).toBe(0);
        expect(boxes.node[0]).toBe(0);
    });
});

describe("what stands out", () => {
    const wood: Wood = {
        name: "",
        children: [
            { name: "main", children: [{ name: "x", children: [{ name: "leaf", self: 50 }] }] },
            { name: "other", self: 50 },
        ],
    };

    it("fades what a search does not find", () => {
        const s = sceneOf(options(grow(wood), { search: "LEAF" }), null);
        expect([...s.matches]).toEqual([4]);
        expect([1, 2, 3, 4].map((n) => isLit(s, n))).toEqual([false, false, false, true]);
        expect(colourOf(s, 1)).not.toBe(colourOf(sceneOf(options(grow(wood)), null), 1));
    });

    it("keeps callers and callees of the selected function", () => {
        const s = sceneOf(options(grow(wood), { selected: "x" }), null);
        expect([0, 1, 2, 3, 4].map((n) => isLit(s, n))).toEqual([true, true, false, true, true]);
        // A function that is not there fades nothing.
        expect(isLit(sceneOf(options(grow(wood), { selected: "nobody" }), null), 2)).toBe(true);
    });

    it("shows matches that are thinner than a pixel", () => {
        const t = siblings(100_000, () => 1);
        t.frame = t.frame.map((_, i) => (i === 0 ? 0 : i === 50_321 ? 2 : 1));
        const o = options(t, { search: "b::y" });
        const { scene, out } = row(o, 1, strip(500));
        const lit = colourOf(scene, 50_321);
        expect([...out].filter((c) => c === lit).length).toBe(1);
        expect(out[Math.floor((50_320 / 100_000) * 500)]).toBe(lit);
    });

    it("takes over what has not changed", () => {
        const o = options(grow(wood));
        const a = sceneOf(o, null);
        const b = sceneOf({ ...o, search: "x" }, a);
        expect(b.layout).toBe(a.layout);
        expect(b.slots).toBe(a.slots);
        expect(sceneOf({ ...o, colour: "kind" }, b).slots).not.toBe(a.slots);
    });
});
