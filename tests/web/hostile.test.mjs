// Profiles that are wrong, extreme or mean; servers that go away; tokens that expire.

import assert from "node:assert/strict";
import { test, visit } from "./lib/harness.mjs";
import { million, NAMES, seedHostile } from "./lib/hostile.mjs";
import { Server } from "./lib/server.mjs";

let seeded = null;
async function open(page, server, address) {
    seeded ??= seedHostile(server);
    await seeded;
    await visit(page, server, address);
    return page.locator("body").innerText();
}

/** What no page may ever say, and what no name may ever do. */
async function checkSound(page) {
    const text = await page.locator("body").innerText();
    assert.doesNotMatch(text, /\bNaN\b|\bundefined\b|\[object |Infinity/);
    const done = await page.evaluate(() => ({ pwned: "pwned" in window, images: document.querySelectorAll("main img, main script, main iframe").length }));
    assert.deepEqual(done, { pwned: false, images: 0 });
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wide <= 0, `the page is ${wide} px wider than its window`);
}

const VIEWS = ["flame", "icicle", "top", "tree", "callers", "graph", "source", "heat", "labels"];
const address = (service, view, more = "") => `/explore?s=${service}&t=cpu&from=now-2h&view=${view}${more}`;

for (const service of ["h-one", "h-deep", "h-names", "h-zero"]) {
    test(`${service}: every view is sound`, { timeout: 15_000, expectErrors: true }, async ({ page, server }) => {
        for (const view of VIEWS) {
            await open(page, server, address(service, view, view === "callers" ? "&sel=main" : ""));
            await checkSound(page);
        }
    });
}

test("one frame is drawn and told", async ({ page, server }) => {
    await open(page, server, address("h-one", "flame"));
    await page.getByRole("tree").first().focus();
    await page.keyboard.press("ArrowUp");
    await page.locator("footer.details").getByText("only").waitFor();
});

test("2,000 levels can be walked to the end", async ({ page, server }) => {
    await open(page, server, address("h-deep", "flame"));
    await page.getByRole("tree").first().focus();
    for (let i = 0; i < 30; i++) await page.keyboard.press("ArrowUp");
    await page.locator("footer.details").getByText("level_").first().waitFor();
    await open(page, server, address("h-deep", "top", "&search=level_1999"));
    await page.getByRole("grid").getByText("level_1999").waitFor();
});

test("names are text, whatever they hold", async ({ page, server }) => {
    await open(page, server, address("h-names", "top"));
    const grid = page.getByRole("grid");
    for (const name of [NAMES.html, NAMES.entity, NAMES.emoji, NAMES.quotes]) {
        const shown = await grid.evaluate((g, n) => [...g.querySelectorAll(".frame-name")].some((e) => e.textContent === n), name);
        assert.ok(shown, `no row ${name}`);
    }
    await grid.getByText(/^(\(no name\)|<?unknown>?|0x[0-9a-f]+)$/).first().waitFor();
    const longest = await grid.evaluate((g) => Math.max(...[...g.querySelectorAll(".frame-name")].map((e) => e.textContent.length)));
    assert.ok(longest < 5000, `a row holds ${longest} characters`);
    await open(page, server, `/function?sel=${encodeURIComponent(NAMES.html)}&t=cpu&from=now-2h`);
    await checkSound(page);
});

test("a comparison with negative changes, and with an empty side", async ({ page, server }) => {
    for (const view of ["flame", "table", "explain", "sides"]) {
        await open(page, server, `/compare?s=h-thin&t=cpu&from=now-2h&a.s=h-gaps&a.t=cpu&a.from=now-2h&x.view=${view}`);
        await checkSound(page);
        await page.getByText("−").first().waitFor();
        await open(page, server, `/compare?s=h-thin&t=cpu&from=now-2h&a.s=nobody&a.t=cpu&a.from=now-2h&x.view=${view}`);
        await checkSound(page);
    }
});

test("few samples are said to be few, and a wider range is offered", async ({ page, server }) => {
    for (const view of ["flame", "top", "tree", "graph"]) {
        const text = await open(page, server, address("h-thin", view));
        assert.match(text, /only 3 samples/i, view);
    }
    await page.getByRole("button", { name: /times the range/ }).click();
    await page.waitForURL(/from=(?!now-2h)/);
});

test("gaps in time are gaps", async ({ page, server }) => {
    await open(page, server, address("h-gaps", "flame"));
    await checkSound(page);
});

test("data from the future is found", { expectErrors: true }, async ({ page, server }) => {
    await open(page, server, "/explore?s=h-future&t=cpu");
    await checkSound(page);
    await page.getByRole("button", { name: /hour of its last profile/ }).click();
    await page.locator("footer.details").getByText("3 s").first().waitFor();
});

test("a million siblings are drawn, and found", { timeout: 60_000 }, async ({ page, problems }) => {
    const own = await Server.start("--limits-query-memory", "1GiB");
    page.removeAllListeners("request");
    await page.goto(`${own.url}/open`);
    await page.locator("input[type=file]").first().setInputFiles({ name: "million.folded", mimeType: "text/plain", buffer: million() });
    await page.locator("main a.button.primary").click();
    await page.getByRole("tree").first().waitFor();
    await checkSound(page);
    await page.locator("footer.details").getByText(/of 1,000,00\d|1,000,00\d nodes/).first().waitFor();
    await own.end();
    problems.length = 0;
});

test("a server that goes away, and comes back", { expectErrors: true }, async ({ page, problems, server }) => {
    const own = await Server.start();
    try {
        seeded ??= seedHostile(server);
        await seedHostile(own);
        page.removeAllListeners("request");
        await visit(page, own, address("h-gaps", "top"));
        await own.stop();
        await page.getByRole("button", { name: "Ask again" }).click();
        await page.getByText(/does not answer|no answer/i).first().waitFor();
        await own.run();
        await page.getByRole("button", { name: /try again/i }).first().click();
        await page.getByRole("grid").getByText("late").waitFor();
        assert.equal(await page.getByText(/does not answer/i).count(), 0);
    } finally {
        await own.end();
    }
    problems.length = 0;
});

test("a token is asked for, works, and expires", { expectErrors: true }, async ({ page, problems }) => {
    const own = await Server.start("--auth", "on", "--admin-token", "vst_admin_0123456789abcdef");
    const admin = { authorization: "Bearer vst_admin_0123456789abcdef", "content-type": "application/json" };
    try {
        own.token = "vst_admin_0123456789abcdef";
        await seedHostile(own);
        page.removeAllListeners("request");
        const made = await (await fetch(`${own.url}/api/v1/admin/tokens`, { method: "POST", headers: admin, body: JSON.stringify({ name: "reader", roles: ["read"] }) })).json();
        assert.ok(made.token, JSON.stringify(made));
        await page.goto(own.url + address("h-gaps", "top"));
        await page.getByLabel("Token", { exact: true }).fill("wrong");
        await page.getByRole("button", { name: "Enter" }).click();
        await page.getByRole("alert").waitFor();
        await page.getByLabel("Token", { exact: true }).fill(made.token);
        await page.getByRole("button", { name: "Enter" }).click();
        await page.getByRole("grid").getByText("late").waitFor();
        await fetch(`${own.url}/api/v1/admin/tokens/${made.id}`, { method: "DELETE", headers: admin });
        await page.getByRole("button", { name: "Ask again" }).click();
        await page.getByLabel("Token", { exact: true }).waitFor();
    } finally {
        await own.end();
    }
    problems.length = 0;
});
