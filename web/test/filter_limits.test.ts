import { afterEach, describe, expect, it, vi } from "vitest";
import { addFilter, changeFilter, state, toast } from "../src/app";
import { emptyState, type Filter } from "../src/core/url";

const tag = (i: number): Filter => ({ kind: "tagfocus", value: `key=^${i}$` });
const EIGHT = Array.from({ length: 8 }, (_, i) => tag(i));

/** The address bar is all that is needed of a browser here. */
function open(filters: Filter[]) {
    vi.stubGlobal("document", { baseURI: "http://localhost/" });
    vi.stubGlobal("location", { href: "http://localhost/" });
    vi.stubGlobal("history", { pushState() {} });
    const s = emptyState();
    state.value = { ...s, view: { ...s.view, filters } };
    toast.value = null;
}

const filters = () => state.value.view.filters;

afterEach(() => vi.unstubAllGlobals());

describe("filters by labels", () => {
    it("are as many as the server takes, and the next one is refused in words", () => {
        open(EIGHT.slice(0, 7));
        addFilter(tag(7));
        expect(filters()).toEqual(EIGHT);
        expect(toast.value).toBeNull();
        addFilter(tag(8));
        expect(filters()).toEqual(EIGHT);
        expect(toast.value?.text).toBe(
            "Not added: the server takes 8 filters of tagfocus. Drop one first",
        );
    });

    it("are counted by their kind", () => {
        open(EIGHT);
        const others: Filter[] = [
            { kind: "tagignore", value: "key=^8$" },
            { kind: "hide", value: "main" },
        ];
        for (const f of others) addFilter(f);
        expect(filters()).toEqual([...EIGHT, ...others]);
    });

    it("can be changed in place, but not into one too many", () => {
        open([...EIGHT, { kind: "tagignore", value: "key=^8$" }]);
        changeFilter(0, tag(9));
        expect(filters()[0]).toEqual(tag(9));
        changeFilter(8, tag(8));
        expect(filters()[8].kind).toBe("tagignore");
        expect(toast.value?.text).toMatch(/the server takes 8/);
    });
});
