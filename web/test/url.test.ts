import { describe, expect, it } from "vitest";
import {
    emptyScope,
    emptyState,
    formatState,
    type Matcher,
    parseState,
    selectorText,
} from "../src/core/url";

function again(text: string) {
    const at = text.indexOf("?");
    return at < 0 ? parseState(text, "") : parseState(text.slice(0, at), text.slice(at + 1));
}

describe("the state in the address", () => {
    it("is short when nothing was set", () => {
        expect(formatState(emptyState())).toBe("./");
        expect(formatState(emptyState("fleet"))).toBe("fleet");
    });

    it("comes back whole", () => {
        const s = emptyState("compare");
        s.scope = {
            service: "checkout & co",
            type: "cpu",
            labels: [
                { name: "env", op: "=", value: "prod=1" },
                { name: "pod", op: "=~", value: "a.*|b" },
                { name: "zone", op: "!=", value: "" },
            ],
            from: "now-6h",
            until: "2026-01-01T00:00:00Z",
            id: "00ff",
            trace: "aa",
            span: "bb",
            file: "k1",
        };
        s.base = { ...s.scope, service: "<b>", labels: [] };
        s.view = {
            view: "callers",
            search: "/a+b/",
            filters: [
                { kind: "hide", value: "^libc" },
                { kind: "focus", value: "x|y" },
            ],
            group: "packages",
            invert: true,
            recursion: true,
            colour: "kind",
            root: ["main", "", "serve 🜂"],
            selected: "std::sort<T>()",
            by: "version",
            tag: "lock.kind",
            source: "/a/b.c",
            line: 12,
            order: "-cum",
            relative: true,
        };
        s.diff = "ratio";
        s.symptom = "p99";
        s.step = 2;
        s.extra = { trace: "1", note: "ü" };
        expect(again(formatState(s))).toEqual(s);
    });

    it("keeps a base that says nothing but its being there", () => {
        const s = emptyState("compare");
        s.base = emptyState().scope;
        expect(again(formatState(s)).base).toEqual(s.base);
    });

    it("survives nonsense", () => {
        const s = parseState("/nowhere/", "view=17&l=&l=novalue&line=x&group=&focus=&step=-");
        expect(s.page).toBe("home");
        expect(s.view).toEqual(emptyState().view);
        expect(s.scope.labels).toEqual([]);
    });
});

describe("selectors", () => {
    it("quote values", () => {
        const s = emptyState().scope;
        expect(selectorText(s)).toBe("");
        s.type = "cpu";
        expect(selectorText(s)).toBe("cpu");
        s.service = 'a"b\\';
        s.labels = [{ name: "env", op: "!~", value: "x" }];
        expect(selectorText(s)).toBe('cpu{service.name="a\\"b\\\\", env!~"x"}');
    });
});

describe("labels with awkward names and values", () => {
    const awkward: Matcher[] = [
        { name: "env", op: "=", value: "~prod" },
        { name: "env", op: "=", value: "=prod" },
        { name: "env", op: "=~", value: "=x" },
        { name: "env", op: "!=", value: "~x" },
        { name: "env", op: "!~", value: "=x" },
        { name: "a=b!c~d%3d", op: "=", value: "" },
        { name: "größe (m)", op: "=", value: 'say "x"' },
    ];

    it("come back from the address", () => {
        for (const m of awkward) {
            const s = emptyState("explore");
            s.scope.labels = [m];
            expect(again(formatState(s)).scope.labels).toEqual([m]);
        }
    });

    it("are quoted in a selector where the server takes no bare name", () => {
        const text = (name: string) =>
            selectorText({ ...emptyScope(), labels: [{ name, op: "=", value: "v" }] });
        expect(text("k8s.pod/name_x-1")).toBe('{k8s.pod/name_x-1="v"}');
        expect(text("two words")).toBe('{"two words"="v"}');
        expect(text("größe")).toBe('{"größe"="v"}');
        expect(text('a"b\\c')).toBe('{"a\\"b\\\\c"="v"}');
    });
});
