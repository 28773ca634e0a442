import { describe, expect, it } from "vitest";
import { languageOf, lexLine, lexText } from "../src/core/highlight";

/** "kind:text" of each token. */
function lex(language: string, text: string): string[][] {
    const lines = text.split("\n");
    return lexText(language, lines).map((tokens, i) =>
        tokens.map((t) => `${t.kind}:${lines[i].slice(t.start, t.end)}`),
    );
}

describe("source text", () => {
    it("knows languages by endings", () => {
        expect(languageOf("/a/b.cpp")).toBe("c");
        expect(languageOf("x.tsx")).toBe("js");
        expect(languageOf("main.go")).toBe("go");
        expect(languageOf("Makefile")).toBe("");
        expect(languageOf("")).toBe("");
    });
    it("reads C", () => {
        expect(lex("c", 'return "a\\"b" + \'c\'; // x')).toEqual([
            ["word:return", 'string:"a\\"b"', "string:'c'", "comment:// x"],
        ]);
        expect(lex("c", "int a = 0x1f; /* b\n c */ if")).toEqual([
            ["word:int", "number:0x1f", "comment:/* b"],
            ["comment: c */", "word:if"],
        ]);
    });
    it("carries strings over lines", () => {
        expect(lex("go", "a := `x\ny` // z")).toEqual([
            ["string:`x"],
            ["string:y`", "comment:// z"],
        ]);
        expect(lex("python", 'x = """a\n# no\n""" # yes')).toEqual([
            ['string:"""a'],
            ["string:# no"],
            ['string:"""', "comment:# yes"],
        ]);
        expect(lex("js", "const a = `b`;")).toEqual([["word:const", "string:`b`"]]);
        expect(lex("rust", 'let s = r#"a"b"#; fn')).toEqual([
            ["word:let", 'string:r#"a"b"#', "word:fn"],
        ]);
    });
    it("leaves what does not end, and what it does not know", () => {
        expect(lex("c", '"open\nint')).toEqual([['string:"open'], ["word:int"]]);
        expect(lex("", "int x")).toEqual([[]]);
        expect(lex("java", "'a\\")).toEqual([["string:'a\\"]]);
    });
    it("takes lines of any length and content", () => {
        for (const c of ['"', "/*", "`", "\\", "🜂", "a", "9.", "\0"]) {
            const { tokens } = lexLine("js", c.repeat(65_536), "");
            for (const t of tokens) expect(t.end).toBeGreaterThan(t.start);
        }
    });
});
