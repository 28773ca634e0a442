import { describe, expect, it } from "vitest";
import { clipText, isMatch, matchSpans, searchPattern, splitName } from "../src/core/text_match";

describe("what a search finds", () => {
    it("is a substring in any case", () => {
        const p = searchPattern("foo()");
        expect(isMatch(p, "my FOO() here")).toBe(true);
        expect(isMatch(p, "foo")).toBe(false);
        expect(matchSpans(p, "foo()foo()")).toEqual([
            [0, 5],
            [5, 10],
        ]);
    });
    it("is a regex between slashes, with the server's flag", () => {
        expect(isMatch(searchPattern("/^ma.n$/"), "main")).toBe(true);
        expect(isMatch(searchPattern("/^ma.n$/"), "MAIN")).toBe(false);
        expect(isMatch(searchPattern("/(?i)^ma.n$/"), "MAIN")).toBe(true);
    });
    it("is nothing while it is no regex, or empty", () => {
        expect(searchPattern("")).toBeNull();
        expect(searchPattern("/(/")).toBeNull();
        expect(isMatch(null, "x")).toBe(false);
        expect(matchSpans(null, "x")).toEqual([]);
    });
    it("ends where matches are empty, or many", () => {
        expect(matchSpans(searchPattern("/x*/"), "aaa")).toEqual([]);
        expect(matchSpans(searchPattern("a"), "a".repeat(1000), 5)).toHaveLength(5);
    });
});

describe("names", () => {
    it("keep the function apart from the path", () => {
        expect(splitName("github.com/a/b.(*T).Do")).toEqual(["github.com/a/", "b.(*T).Do"]);
        expect(splitName("com.example.shop.Cart.add")).toEqual(["com.example.shop.", "Cart.add"]);
        expect(splitName("runtime.mallocgc")).toEqual(["", "runtime.mallocgc"]);
        expect(splitName("std::map<a/b>::f(x/y)")).toEqual(["", "std::map<a/b>::f(x/y)"]);
        expect(splitName("")).toEqual(["", ""]);
        expect(splitName("/")).toEqual(["", "/"]);
    });
    it("are cut for tooltips", () => {
        expect(clipText("x".repeat(600))).toHaveLength(501);
        expect(clipText("short")).toBe("short");
    });
});
