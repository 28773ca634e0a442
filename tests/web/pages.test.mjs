// Every page opens, at desktop and narrow widths, in light and dark, and axe finds nothing serious.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { ADDRESSES } from "./lib/addresses.mjs";
import { SIZES, test, visit } from "./lib/harness.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

async function serious(page) {
    await page.evaluate(AXE);
    const found = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
    return found.violations
        .filter((v) => v.impact === "serious" || v.impact === "critical")
        .map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => `${n.html} ${n.failureSummary}`).join(" | ")}`);
}

for (const [name, address] of Object.entries(ADDRESSES)) {
    for (const [size, [width, height]] of Object.entries(SIZES)) {
        const dark = size === "narrow";
        test(`page ${name}, ${size}, ${dark ? "dark" : "light"}: opens, fits, axe content`, { width, height, dark }, async ({ page, server }) => {
            await visit(page, server, address);
            assert.deepEqual(await serious(page), []);
            const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
            assert.ok(wide <= 0, `the page is ${wide} px wider than its window`);
        });
    }
}
