// What is asked of the server for scopes that not every question can have.

import { afterEach, describe, expect, it, vi } from "vitest";
import { pageState, state } from "../src/app";
import { askLabels, askTimeline, askTypes, diffParams } from "../src/api/questions";
import { emptyScope, emptyState } from "../src/core/url";

const span = { ...emptyScope(), service: "a", id: "1", trace: "2", span: "3" };

describe("a scope of one span", () => {
    afterEach(() => {
        vi.unstubAllGlobals();
        state.value = emptyState();
    });

    it("is widened where the server knows no spans", async () => {
        const asked: string[] = [];
        vi.stubGlobal("document", { baseURI: "http://x/" });
        vi.stubGlobal("fetch", async (url: URL | string) => {
            asked.push(String(url));
            return new Response("{}", { headers: { "Content-Type": "application/json" } });
        });
        await askTimeline(span);
        await askTypes(span);
        await askLabels(span);
        expect(asked).toHaveLength(3);
        for (const url of asked) expect(url).not.toMatch(/[?&](id|trace|span)=/);
    });

    it("is no side of a comparison", () => {
        expect(() => diffParams(span, emptyScope())).toThrow(/whole selections/);
        expect(() => diffParams(emptyScope(), span)).toThrow(/whole selections/);
        expect(diffParams(emptyScope(), emptyScope()).body).toBeUndefined();
    });

    it("stays on pages that can show it", () => {
        state.value = { ...emptyState("explore"), scope: { ...span, file: "k" } };
        expect(pageState("compare").scope).toMatchObject({ span: "3", file: "k" });
        expect(pageState("memory").scope).toEqual({ ...emptyScope(), service: "a" });
    });
});
