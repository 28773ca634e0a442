import { describe, expect, it } from "vitest";
import { clipName, Labels, shownName } from "../src/core/flame_labels";
import { moveFrom, spokenText } from "../src/core/flame_moves";
import { familyOf, matcherOf, matchFrames, nextMatch, nodesOf } from "../src/core/flame_search";
import { shortStart } from "../src/core/frame_class";
import { grow } from "./tree_encode";

const short = (name: string) => name.slice(shortStart(name));

describe("labels", () => {
    it("knows where the function's own name begins", () => {
        expect(short("github.com/a/b.(*T).Method")).toBe("Method");
        expect(short("main.main.func1")).toBe("main.func1");
        expect(short("ns::C<std::pair<a, b>>::f(std::string const&)")).toBe(
            "f(std::string const&)",
        );
        expect(short("<T as core::fmt::Debug>::fmt")).toBe("fmt");
        expect(short("com.example.Cart.add")).toBe("add");
        expect(short("handle /app/server.js:10")).toBe("handle /app/server.js:10");
        expect(short("malloc")).toBe("malloc");
        expect(short("")).toBe("");
        expect(short("...")).not.toBe("");
    });

    it("cuts the package from the left, then the name's end", () => {
        const name = "github.com/acme/shop.Handler";
        expect(clipName(name, 40)).toBe(name);
        expect(clipName(name, 28)).toBe(name);
        expect(clipName(name, 14)).toBe("…/shop.Handler");
        expect(clipName(name, 8)).toBe("…Handler");
        expect(clipName(name, 7)).toBe("Handler");
        expect(clipName(name, 5)).toBe("Hand…");
        expect(clipName(name, 1)).toBe("H");
        expect(clipName(name, 0)).toBe("");
    });

    it("never makes more text than fits", () => {
        const long = "x".repeat(65536);
        expect(clipName(long, 10)).toBe(`${"x".repeat(9)}…`);
        expect(clipName(`a::${long}`, 10).length).toBe(10);
        expect(clipName("x::y".repeat(16384), 10).length).toBeLessThanOrEqual(10);
    });

    it("does not cut characters in half, and counts wide ones twice", () => {
        expect(clipName("😀😀😀😀", 5)).toBe("😀😀…");
        expect(clipName("pkg.😀😀😀😀", 9)).toBe("…😀😀😀😀");
        expect(clipName("漢字漢字", 8)).toBe("漢字漢字");
        expect(clipName("漢字漢字", 5)).toBe("漢字…");
    });

    it("isolates names that may run from right to left, and names the nameless", () => {
        expect(shownName("مرحبا")).toBe("\u2068مرحبا\u2069");
        expect(shownName("a\nb")).toBe("\u2068a b\u2069");
        expect(shownName("plain")).toBe("plain");
        expect(shownName("")).toBe("(no name)");
        const t = grow({ name: "", children: [{ name: "مرحبا", self: 1 }] });
        const labels = new Labels(t.frames);
        expect(labels.text(t.frame[1], 20)).toBe("\u2068مرحبا\u2069");
        expect(labels.text(t.frame[0], 20)).toBe("(no name)");
        expect(labels.text(t.frame[0], 4)).toBe("(no…");
    });

    it("leaves markup as text", () => {
        const name = "<img src=x onerror=alert(1)>";
        expect(shownName(name)).toBe(name);
    });
});

describe("searching", () => {
    it("is a substring in any case, or a regex", () => {
        const find = (search: string, name: string) => matcherOf(search)?.(name);
        expect(matcherOf("  ")).toBeNull();
        expect(find("ser", "conn.Serve")).toBe(true);
        expect(find("f()", "f()")).toBe(true);
        expect(find("/^conn/", "conn.Serve")).toBe(true);
        expect(find("/^Conn/", "conn.Serve")).toBe(false);
        expect(find("/(?i)^Conn/", "conn.Serve")).toBe(true);
        expect(find("/(/", "(")).toBe(false);
    });

    const t = grow({
        name: "a",
        children: [
            { name: "a", self: 1, children: [{ name: "b", self: 1 }] },
            { name: "c", self: 1, children: [{ name: "a", self: 1 }] },
        ],
    });

    it("finds nodes, but not the root, and goes from one to the next", () => {
        const nodes = nodesOf(
            t,
            matchFrames(t.frames.name, (n) => n === "a"),
        );
        expect([...nodes]).toEqual([1, 4]);
        expect(nextMatch(nodes, 0, 1)).toBe(1);
        expect(nextMatch(nodes, 1, 1)).toBe(4);
        expect(nextMatch(nodes, 4, 1)).toBe(1);
        expect(nextMatch(nodes, 1, -1)).toBe(4);
        expect(nextMatch(nodes, 3, -1)).toBe(1);
        expect(nextMatch(new Uint32Array(0), 0, 1)).toBe(-1);
    });

    it("finds frames by their file and binary, too", () => {
        const is = (search: string) => {
            const matches = matcherOf(search) ?? (() => false);
            return [...matchFrames(["f", "g", ""], matches, ["a.c", "b.c", ""], ["", "libx", ""])];
        };
        expect(is("a.c")).toEqual([1, 0, 0]);
        expect(is("LIBX")).toEqual([0, 1, 0]);
        expect(is("g")).toEqual([0, 1, 0]);
    });

    it("knows callers and callees", () => {
        expect([...familyOf(t, Uint32Array.of(3))]).toEqual([1, 1, 0, 1, 0]);
        expect([...familyOf(t, Uint32Array.of(2))]).toEqual([1, 0, 1, 0, 1]);
    });

    it("moves through the tree", () => {
        expect(moveFrom(t, 0, "out")).toBe(0);
        expect(moveFrom(t, 0, "in")).toBe(1);
        expect(moveFrom(t, 0, "left")).toBe(0);
        expect(moveFrom(t, 0, "right")).toBe(0);
        expect(moveFrom(t, 1, "right")).toBe(2);
        expect(moveFrom(t, 1, "left")).toBe(1);
        expect(moveFrom(t, 3, "right")).toBe(4);
        expect(moveFrom(t, 4, "in")).toBe(4);
        expect(moveFrom(t, 4, "out")).toBe(2);
    });

    it("says name, total and share", () => {
        const said = spokenText({
            node: 1,
            name: "f",
            file: "",
            line: 0,
            binary: "",
            build: "",
            kind: "",
            self: 0,
            total: 1.5e9,
            of: 3e9,
            parent: 0,
            unit: "nanoseconds",
        });
        expect(said).toBe("f, 1.5 s, 50 %");
    });
});
