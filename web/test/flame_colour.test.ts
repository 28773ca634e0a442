import { describe, expect, it } from "vitest";
import { contrast, cssOf, mix, oklch, pack, parseColour } from "../src/core/colour";
import {
    type DiffLook,
    diffMark,
    diffSlot,
    frameSlots,
    heatSlot,
    kindLegend,
    paletteOf,
} from "../src/core/flame_colour";
import { classOf, hashOf, packageOf } from "../src/core/frame_class";
import { grow } from "./tree_encode";
import { THEME } from "./flame_theme";

const DARK = { ...THEME, l: 0.46, c: 0.07, ink: "#f2eee8", surface: "#1c1a18", same: "#57524c" };
const facts = (name: string, kind = "", file = "", binary = "") => ({ name, kind, file, binary });

describe("colours", () => {
    it("reads and writes what style sheets have", () => {
        expect(cssOf(parseColour("#b93a0a"))).toBe("#b93a0a");
        expect(cssOf(parseColour("#fa0"))).toBe("#ffaa00");
        expect(cssOf(parseColour(" rgb(1, 2, 255) "))).toBe("#0102ff");
        expect(cssOf(parseColour("what"))).toBe("#808080");
    });

    it("converts OKLCH", () => {
        expect(cssOf(oklch(1, 0, 0))).toBe("#ffffff");
        expect(cssOf(oklch(0, 0, 0))).toBe("#000000");
        // sRGB red is 0.628, 0.2577, 29.23
        expect(cssOf(oklch(0.62796, 0.25768, 29.234))).toBe("#ff0000");
        expect(cssOf(oklch(0.5, 0.5, 150))).toMatch(/^#[0-9a-f]{6}$/);
    });

    it("mixes", () => {
        expect(cssOf(mix(pack(255, 255, 255), pack(0, 0, 0), 0.45))).toBe("#737373");
    });

    it("leaves labels readable on every colour of both themes", () => {
        for (const theme of [THEME, DARK]) {
            const ink = parseColour(theme.ink);
            const p = paletteOf(theme);
            p.full.forEach((c, i) => {
                if (c !== 0) expect([i, contrast(c, ink) >= 4.5]).toEqual([i, true]);
            });
        }
    });
});

describe("what frames are", () => {
    it("knows kinds", () => {
        expect(classOf(facts("do_syscall_64", "kernel"))).toBe("kernel");
        expect(classOf(facts("tcp_v4_rcv", "", "", "[kernel.kallsyms]"))).toBe("kernel");
        expect(classOf(facts("runtime.gcBgMarkWorker", "go"))).toBe("runtime");
        expect(classOf(facts("main.main", "go"))).toBe("go");
        expect(classOf(facts("net/http.(*conn).serve"))).toBe("go");
        expect(classOf(facts("handle", "", "/app/server.js"))).toBe("v8");
        expect(classOf(facts("com.example.Cart.add"))).toBe("jvm");
        expect(classOf(facts("view", "cpython"))).toBe("python");
        expect(classOf(facts("<T as core::fmt::Debug>::fmt"))).toBe("native");
        expect(classOf(facts("Foo#bar", "ruby"))).toBe("jit");
        expect(classOf(facts("0x7f001"))).toBe("unknown");
        expect(classOf(facts(""))).toBe("unknown");
    });

    it("knows packages", () => {
        expect(packageOf(facts("github.com/a/b.(*T[go.shape.int]).M"))).toBe("github.com/a/b");
        expect(packageOf(facts("std::vector<int>::push_back(int)"))).toBe("std");
        expect(packageOf(facts("com.example.shop.Cart.add"))).toBe("com.example.shop");
        expect(packageOf(facts("get", "", "/x/node_modules/@a/b/lib/i.js"))).toBe("@a/b");
        expect(packageOf(facts("malloc", "", "", "/usr/lib/libc.so.6"))).toBe("libc.so.6");
        expect(packageOf(facts("x".repeat(65536)))).toBe("");
        expect(packageOf(facts(""))).toBe("");
    });

    it("gives the same package the same colour, and different ones mostly others", () => {
        const t = grow({
            name: "",
            children: ["a/b.F", "a/b.G", "c/d.F", "e/f.H"].map((name) => ({ name, self: 1 })),
        });
        const s = frameSlots(t.frames, "package");
        expect(s[1]).toBe(s[2]);
        expect(new Set(s).size).toBeGreaterThanOrEqual(4);
        expect(new Set(frameSlots(t.frames, "mono")).size).toBe(1);
        const hues = new Set(Array.from({ length: 300 }, (_, i) => hashOf(`pkg${i}`) % 120));
        expect(hues.size).toBeGreaterThan(90);
    });

    it("has a legend", () => {
        const legend = kindLegend(THEME);
        expect(legend.map((l) => l.name)).toContain("kernel");
        expect(new Set(legend.map((l) => l.colour)).size).toBe(legend.length);
    });

    it("heats by what nodes spend themselves", () => {
        expect(heatSlot(0, 100)).toBeLessThan(heatSlot(1, 100));
        expect(heatSlot(1, 100)).toBeLessThan(heatSlot(90, 100));
        expect(heatSlot(-90, 100)).toBe(heatSlot(90, 100));
        expect(heatSlot(5, 0)).toBe(heatSlot(0, 100));
    });
});

describe("differences", () => {
    const look: DiffLook = { mode: "absolute", wholeBefore: 100, wholeAfter: 100 };

    it("tells less from more, strength by size", () => {
        expect(diffMark(10, 5, null, look).change).toBe("less");
        expect(diffMark(5, 10, null, look).change).toBe("more");
        const small = diffMark(10, 11, null, look).step;
        expect(small).toBeLessThan(diffMark(10, 30, null, look).step);
        expect(diffSlot(diffMark(10, 5, null, look))).not.toBe(
            diffSlot(diffMark(5, 10, null, look)),
        );
    });

    it("is grey for what is equal or not significant", () => {
        expect(diffMark(7, 7, null, look)).toEqual({ change: "same", step: 0 });
        expect(diffMark(10, 90, false, look)).toEqual({ change: "same", step: 0 });
        expect(diffMark(10, 90, true, look).change).toBe("more");
        expect(diffMark(0, 0, null, { ...look, wholeBefore: 0, wholeAfter: 0 }).step).toBe(0);
    });

    it("marks what is on one side only", () => {
        expect(diffMark(0, 5, null, look).change).toBe("new");
        expect(diffMark(5, 0, null, look).change).toBe("gone");
    });

    it("compares shares when totals differ", () => {
        const share: DiffLook = { mode: "share", wholeBefore: 100, wholeAfter: 200 };
        expect(diffMark(10, 20, null, share).change).toBe("same");
        expect(diffMark(10, 15, null, share).change).toBe("less");
        expect(diffMark(10, 20, null, { ...share, mode: "absolute" }).change).toBe("more");
    });

    it("takes ratios, and negative values", () => {
        const ratio: DiffLook = { ...look, mode: "ratio" };
        expect(diffMark(1, 2, null, ratio).step).toBe(4);
        expect(diffMark(1, 16, null, ratio).step).toBe(8);
        expect(diffMark(5, -5, null, ratio)).toEqual({ change: "less", step: 8 });
        expect(diffMark(0, -5, null, look).change).toBe("less");
        expect(diffMark(-5, -1, null, look).change).toBe("more");
    });
});
