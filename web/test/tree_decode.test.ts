import { describe, expect, it } from "vitest";
import { nodeAt, pathOf } from "../src/core/frame_tree";
import { decodeTree, shapeOf, TreeError } from "../src/core/tree_decode";
import { encode, grow, pieces, sectionsOf, type Wood } from "./tree_encode";

const wood: Wood = {
    name: "",
    children: [
        {
            name: "main",
            file: "main.go",
            line: 12,
            kind: "go",
            binary: "/bin/app",
            self: 10,
            children: [
                { name: "work", self: 60 },
                { name: "read", self: 20, hidden: [3, 5] },
            ],
        },
        { name: "idle", self: 5, children: [{ name: "work", self: 1 }] },
    ],
};

describe("trees from bytes", () => {
    it("derives who hangs where", () => {
        const t = grow(wood);
        expect(t.n).toBe(6);
        expect([...t.parent]).toEqual([0, 0, 0, 1, 1, 2]);
        expect([...t.depth]).toEqual([0, 1, 1, 2, 2, 2]);
        expect([...t.rows]).toEqual([0, 1, 3, 6]);
        expect(pathOf(t, 5)).toEqual(["idle", "work"]);
        expect(nodeAt(t, ["main", "read"])).toEqual({ node: 4, isWhole: true });
        expect(nodeAt(t, ["main", "none"])).toEqual({ node: 1, isWhole: false });
    });

    it("derives totals with what is hidden", () => {
        const t = grow(wood);
        expect([...t.total]).toEqual([101, 95, 6, 60, 25, 1]);
        expect(t.hidden.get(4)).toEqual({ children: 3, value: 5, before: 0 });
    });

    it("reads frames", () => {
        const t = grow(wood);
        const f = t.frame[1];
        expect(t.frames.name[f]).toBe("main");
        expect(t.frames.file[f]).toBe("main.go");
        expect(t.frames.line[f]).toBe(12);
        expect(t.frames.kind[f]).toBe("go");
        expect(t.frames.binary[f]).toBe("/bin/app");
        expect(t.frames.build[f]).toBe("");
    });

    it("reads both sides, signs and what is sure", () => {
        const diff: Wood = {
            name: "",
            children: [
                { name: "a", self: -300, before: 100, isSure: true, hidden: [1, -50, 20] },
                { name: "b", self: 0, before: 7000 },
            ],
        };
        const t = grow(diff, { isDiff: true, isSigned: true, scale: 10 });
        expect([...t.self]).toEqual([0, -300, 0]);
        expect([...t.total]).toEqual([-350, -350, 0]);
        expect([...(t.before?.total ?? [])]).toEqual([7120, 120, 7000]);
        expect([...(t.isSure ?? [])]).toEqual([0, 1, 0]);
    });

    it("keeps values beyond 32 bits", () => {
        const t = grow({ name: "", children: [{ name: "a", self: 2 ** 45 + 3 }] });
        expect(t.total[0]).toBe(2 ** 45 + 3);
    });

    it("keeps names of any kind", () => {
        const long = "x".repeat(65536);
        const names = ["", long, "مرحبا", "😀🎉", "<img src=x onerror=alert(1)>"];
        const t = grow({ name: "", children: names.map((name) => ({ name, self: 1 })) });
        expect([1, 2, 3, 4, 5].map((i) => t.frames.name[t.frame[i]])).toEqual(names);
    });
});

describe("bytes that are no tree", () => {
    const bad = (b: Uint8Array) => expect(() => decodeTree(b)).toThrow(TreeError);

    it("refuses other files, versions and short ones", () => {
        bad(new Uint8Array(0));
        bad(new TextEncoder().encode("VESTATREaaaaaaaaaaaaaaaaaaaaaa"));
        const whole = encode(wood);
        for (const n of [8, 15, 16, 40, whole.length - 1]) bad(whole.slice(0, n));
        const newer = whole.slice();
        newer[8] = 2;
        expect(() => decodeTree(newer)).toThrow("version 2");
    });

    it("refuses shapes that do not fit", () => {
        const s = sectionsOf(wood);
        const children = (...c: number[]) =>
            bad(pieces({}, { ...s, children: Uint8Array.from(c) }));
        children();
        children(0, 0, 0, 0, 0, 0);
        children(9, 0, 0, 0, 0, 0);
        children(1, 0, 4, 0, 0, 0);
        expect(() => shapeOf(Uint32Array.of(2, 0, 0, 0))).toThrow(TreeError);
    });

    it("refuses frames, strings and values that are missing", () => {
        const s = sectionsOf(wood);
        bad(pieces({}, { ...s, frame: Uint8Array.of(0, 1, 2, 3, 99, 0) }));
        bad(pieces({}, { ...s, frame: Uint8Array.of(0, 1) }));
        bad(pieces({}, { ...s, self: Uint8Array.of(0, 1) }));
        bad(pieces({}, { ...s, strings: Uint8Array.of(0) }));
        bad(pieces({}, { ...s, strings: Uint8Array.of(200, 1, 65) }));
        bad(pieces({}, { ...s, hidden: Uint8Array.of(77, 1, 1) }));
        bad(pieces({}, { ...s, self: new Uint8Array(40).fill(0xff) }));
    });
});
