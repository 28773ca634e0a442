// Explore as a person uses it: tabs, keys, menus, search, the timeline, exports, links.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execSync } from "node:child_process";
import { test, visit } from "./lib/harness.mjs";
import { VESTA, vesta } from "./lib/server.mjs";

const EXPLORE = "/explore?s=checkout&t=cpu&from=now-2h";
const TOTAL = "cart.Total";

const params = (page) => new URL(page.url()).searchParams;
const settled = (page) => page.waitForFunction(() => !document.querySelector(".skeleton, [aria-busy=true]"));
const flame = (page) => page.getByRole("tree").first();
const details = (page) => page.locator("footer.details");

/** Goes down with the arrow keys until the bar tells this function. */
async function focusFrame(page, name) {
    await flame(page).focus();
    for (let i = 0; i < 12; i++) {
        if ((await details(page).innerText()).includes(name)) return;
        await page.keyboard.press("ArrowUp");
    }
    throw new Error(`the keyboard does not reach ${name}: ${await details(page).innerText()}`);
}

async function openMenu(page, name) {
    await focusFrame(page, name);
    await page.keyboard.press(".");
    await page.getByRole("menu").waitFor();
}

const pick = (page, name) => page.getByRole("menuitem", { name, exact: false }).first().click();
const clipboard = (page) => page.evaluate(() => navigator.clipboard.readText());

test("every tab opens its view and keeps search, filter and selection", async ({ page, server }) => {
    await visit(page, server, `${EXPLORE}&search=cart&hide=vfs_read&sel=example.com/shop/cart.Total`);
    for (const [tab, view] of [["Icicle", "icicle"], ["Top", "top"], ["Tree", "tree"], ["Callers/Callees", "callers"], ["Graph", "graph"],
        ["Source", "source"], ["Heat map", "heat"], ["Labels", "labels"], ["Waits", "waits"], ["Flame", null]]) {
        await page.getByRole("tab", { name: tab, exact: true }).click();
        await settled(page);
        assert.equal(params(page).get("view"), view);
        assert.equal(params(page).get("search"), "cart");
        assert.equal(params(page).get("hide"), "vfs_read");
        assert.equal(params(page).get("sel"), "example.com/shop/cart.Total");
        assert.equal(await page.getByRole("alert").count(), 0, `${tab} shows an error`);
    }
    for (let i = 0; i < 3; i++) await page.goBack();
    assert.equal(params(page).get("view"), "heat");
    await page.goForward();
    assert.equal(params(page).get("view"), "labels");
});

test("keys do what the list of keys says", async ({ page, server }) => {
    await visit(page, server, `${EXPLORE}&sel=example.com/shop/cart.Total`);
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).getByText("collapse recursion").waitFor();
    await page.keyboard.press("Escape");
    for (const [key, view] of [["2", "icicle"], ["3", "top"], ["4", "tree"], ["5", "callers"], ["6", "graph"], ["7", "source"], ["8", "heat"], ["9", "labels"], ["t", "waits"], ["1", null]]) {
        await page.keyboard.press(key);
        assert.equal(params(page).get("view"), view, `key ${key}`);
    }
    await settled(page);
    for (const [key, name, on] of [["i", "invert", "1"], ["i", "invert", null], ["r", "recursion", "1"], ["c", "colour", "kind"]]) {
        await page.keyboard.press(key);
        assert.equal(params(page).get(name), on, `key ${key}`);
    }
    await page.keyboard.press("y");
    assert.match(await clipboard(page), /^http.*from=20\d\d-/);
    await page.keyboard.press("f");
    assert.match(params(page).get("focus"), /cart/);
    await page.keyboard.press("x");
    await page.waitForURL(/\/compare\?/);
    await page.keyboard.press("g");
    await page.keyboard.press("m");
    await page.waitForURL(/\/memory/);
});

test("the frame's menu: zoom, callers, source, history, compare, filters, copies", async ({ page, server }) => {
    await visit(page, server, EXPLORE);
    await openMenu(page, TOTAL);
    await pick(page, "Copy name");
    assert.equal(await clipboard(page), "example.com/shop/cart.Total");
    await openMenu(page, TOTAL);
    await pick(page, "Copy stack");
    assert.deepEqual((await clipboard(page)).split("\n"), ["example.com/shop/main.main", "example.com/shop/http.Serve", "example.com/shop/cart.Total"]);
    await openMenu(page, TOTAL);
    await pick(page, "Zoom to it");
    assert.equal(params(page).getAll("root").at(-1), "example.com/shop/cart.Total");
    for (const [entry, kind] of [["Keep stacks with it", "focus"], ["Hide it", "hide"], ["Drop stacks with it", "ignore"], ["Begin stacks here", "show_from"]]) {
        await visit(page, server, EXPLORE);
        await openMenu(page, TOTAL);
        await pick(page, entry);
        assert.match(params(page).get(kind) ?? "", /cart/, entry);
    }
    for (const [entry, address, text] of [["Callers and callees", /view=callers/, TOTAL], ["Source", /view=source/, "cart.go"],
        ["History of this function", /\/function\?/, TOTAL], ["Open in Compare", /\/compare\?.*focus=/, /Total/]]) {
        await visit(page, server, EXPLORE);
        await openMenu(page, TOTAL);
        await pick(page, entry);
        await page.waitForURL(address);
        await settled(page);
        await page.getByText(text).first().waitFor();
    }
});

test("pointer: hovering tells, double-click zooms, right click opens the menu", async ({ page, server }) => {
    await visit(page, server, EXPLORE);
    const box = await flame(page).boundingBox();
    const [x, y] = [box.x + box.width / 4, box.y + box.height - 18 * 3.5];
    await page.mouse.move(x, y);
    await page.waitForFunction(() => document.querySelector("footer.details")?.textContent?.includes("cart.Total"));
    const text = await details(page).innerText();
    assert.match(text, /29 s/);
    assert.match(text, /55\.8 %/);
    assert.match(text, /cart\.go/);
    await page.mouse.dblclick(x, y);
    await page.waitForURL(/root=/);
    assert.equal(params(page).getAll("root").at(-1), "example.com/shop/cart.Total");
    await page.goBack();
    await page.waitForURL((u) => !u.searchParams.has("root"));
    await page.mouse.click(x, y, { button: "right" });
    await page.getByRole("menu").getByText("cart.Total").waitFor();
    await page.keyboard.press("Escape");
    assert.equal(await page.getByRole("menu").count(), 0);
});

test("search tells the share of the whole; Enter makes a filter, Escape clears", async ({ page, server }) => {
    await visit(page, server, EXPLORE);
    await page.keyboard.press("/");
    await page.keyboard.type("DISCOUNT");
    await page.getByText("29.2 %").first().waitFor(); // 15.2 s of 52 s
    assert.equal(params(page).get("search"), "DISCOUNT");
    await page.keyboard.press("Enter");
    await page.waitForURL(/focus=/);
    await settled(page);
    await page.getByRole("tab", { name: "Top", exact: true }).click();
    await page.getByRole("grid").getByText("discount").first().waitFor();
    assert.equal(await page.getByRole("grid").getByText("vfs_read").count(), 0);
    await page.getByRole("button", { name: /^Drop / }).click();
    await page.getByRole("grid").getByText("vfs_read").waitFor();
    await page.keyboard.press("/");
    await page.keyboard.type("x");
    await page.keyboard.press("Escape");
    assert.equal(params(page).get("search"), null);
});

test("the timeline: drag to zoom, to compare, and to the heat map; deploys lead to before and after", async ({ page, server }) => {
    const drag = async () => {
        await visit(page, server, EXPLORE);
        const box = await page.locator(".timeline-surface").boundingBox();
        await page.mouse.move(box.x + box.width * 0.4, box.y + box.height / 2);
        await page.mouse.down();
        await page.mouse.move(box.x + box.width * 0.5, box.y + box.height / 2, { steps: 4 });
        await page.mouse.move(box.x + box.width * 0.6, box.y + box.height / 2, { steps: 4 });
        await page.mouse.up();
    };
    await drag();
    await page.getByRole("button", { name: "Zoom", exact: true }).click();
    await page.waitForURL(/from=20/);
    const [from, until] = ["from", "until"].map((k) => Date.parse(params(page).get(k)));
    assert.ok(Math.abs((until - from) / 60_000 - 24) < 4, `${(until - from) / 60_000} min`);
    await drag();
    await page.getByRole("button", { name: /period before/ }).first().click();
    await page.waitForURL(/\/compare\?/);
    assert.equal(Date.parse(params(page).get("a.until")), Date.parse(params(page).get("from")));
    await drag();
    await page.getByRole("button", { name: /Heat map/ }).last().click();
    await page.waitForURL(/view=heat/);
    await visit(page, server, EXPLORE);
    await page.locator(".timeline-marker").last().click();
    await page.waitForURL(/\/compare\?/);
});

test("a link with everything in it opens as it was, and Share freezes times", async ({ page, server }) => {
    await visit(page, server, `${EXPLORE}&l=deployment.environment.name=prod&view=icicle&root=example.com/shop/main.main&group=packages&colour=kind&hide=vfs_read&search=shop&invert=1`);
    await page.getByRole("button", { name: "Share" }).click();
    const link = await page.getByLabel("Link", { exact: true }).inputValue();
    assert.match(link, /from=20\d\d-.*until=20\d\d-/);
    await page.goto(link);
    await settled(page);
    for (const [k, v] of [["view", "icicle"], ["group", "packages"], ["colour", "kind"], ["hide", "vfs_read"], ["search", "shop"], ["invert", "1"], ["l", "deployment.environment.name=prod"]])
        assert.equal(params(page).get(k), v);
    await page.getByText(/26 s|20\.\d s|2\d(\.\d)? s/).first().waitFor();
});

const EXPORTS = {
    pprof: (f) => assert.match(vesta("top", "-sample_index=cpu", f), /regexp\.MustCompile/),
    OTLP: (f) => assert.match(vesta("top", f), /regexp\.MustCompile/),
    SVG: (f) => assert.match(readFileSync(f, "utf8"), /<svg[\s\S]*MustCompile/),
    PNG: (f) => assert.deepEqual([...readFileSync(f).subarray(0, 4)], [0x89, 0x50, 0x4e, 0x47]),
    Speedscope: (f) => assert.match(vesta("top", f), /regexp\.MustCompile/),
    Collapsed: (f) => assert.match(readFileSync(f, "utf8"), /main\.main;.*MustCompile 15200000000/),
    JSON: (f) => assert.equal(JSON.parse(readFileSync(f, "utf8")).total, 52e9),
    CSV: (f) => assert.match(readFileSync(f, "utf8"), /regexp\.MustCompile"?,[^\n]*,15200000000,15200000000/),
    HTML: (f) => assert.match(readFileSync(f, "utf8"), /id="profile"/),
};

test("every export is a file that its tools read", { timeout: 20_000 }, async ({ page, server }) => {
    await visit(page, server, EXPLORE);
    for (const [name, check] of Object.entries(EXPORTS)) {
        await page.getByRole("button", { name: "Export" }).click();
        const coming = page.waitForEvent("download");
        await page.locator(".export .menu-row").filter({ has: page.locator(`span:text-is("${name}")`) }).click();
        const got = await coming;
        const file = join(tmpdir(), `vesta-web-${process.pid}-${got.suggestedFilename()}`);
        await got.saveAs(file);
        check(file);
    }
    await page.getByRole("button", { name: "Export" }).click();
    await page.getByText("Copy as command").click();
    const command = (await clipboard(page)).replace(/^vesta /, `${VESTA} `);
    assert.match(execSync(command, { encoding: "utf8" }), /regexp\.MustCompile/);
});

test("labels: series and attributes of samples in one list; a value becomes a filter that adds to others", async ({ page, server }) => {
    const grid = page.getByRole("grid", { name: /^Values of/ });
    const choose = async (name) => {
        await page.getByRole("button", { name: /^Split by/ }).click();
        const list = page.getByRole("dialog", { name: "Choose what to split by" });
        await list.getByText("Attributes of samples", { exact: true }).waitFor();
        assert.deepEqual(await list.locator(".pick-group").allInnerTexts(), ["Labels of series", "Attributes of samples"]);
        await list.getByRole("option", { name }).click();
        await settled(page);
    };
    await visit(page, server, `${EXPLORE}&view=labels&by=service.version`);
    await grid.getByText("2.3.1").waitFor();
    await choose(/^thread/);
    assert.equal(params(page).get("tag"), "thread");
    await grid.getByText("staging").waitFor();
    assert.deepEqual(await grid.getByText("50 %").count(), 2);
    await page.getByRole("button", { name: "Without staging" }).click();
    await page.getByRole("button", { name: "Drop tagignore: thread=staging" }).waitFor();
    await page.getByRole("button", { name: "Only prod" }).click();
    await page.getByRole("button", { name: "Drop tagfocus: thread=prod" }).waitFor();
    await settled(page);
    assert.equal(params(page).get("tagfocus"), "thread=^prod$");
    await grid.getByText("100 %").waitFor();
    assert.equal(await grid.getByText("staging").count(), 0);
    await page.getByRole("tab", { name: "Top", exact: true }).click();
    await page.waitForFunction(() => /26 s/.test(document.querySelector("footer.details")?.textContent ?? "")); // of 52 s
    await page.getByRole("tab", { name: "Labels", exact: true }).click();
    await choose(/^service.version/);
    assert.equal(params(page).get("tag"), null);
    await grid.getByText("2.3.1").waitFor();
});

test("labels: samples without the attribute, and without any, say what to do", async ({ page, server }) => {
    await visit(page, server, `${EXPLORE}&view=labels&tag=lock.kind`);
    await page.getByRole("heading", { name: "No sample here has lock.kind" }).waitFor();
    await page.getByRole("button", { name: "thread", exact: true }).click();
    await page.getByRole("grid").getByText("prod").waitFor();
    await visit(page, server, "/explore?s=payments&t=cpu&from=now-2h&view=labels&tag=http.route");
    await page.getByRole("heading", { name: "Samples carry no attributes" }).waitFor();
    await page.getByText("vesta_label_set").waitFor();
    // Some samples have it, some have not.
    await visit(page, server, "/explore?s=checkout&t=wall&from=now-2h&view=labels&tag=thread");
    await page.getByRole("button", { name: "Only (not set)" }).click();
    await page.waitForURL(/tagignore=/);
    await page.getByRole("heading", { name: "No sample here has thread" }).or(page.getByRole("heading", { name: "Samples carry no attributes" })).waitFor();
});

test("options: grouping by package, file, line and binary, and all colours", async ({ page, server }) => {
    for (const [group, text] of [["packages", "shop"], ["files", "cart.go"], ["lines", "cart.go:40"], ["binaries", "shop"]]) {
        await visit(page, server, `${EXPLORE}&view=top&group=${group}`);
        await page.getByRole("grid").getByText(text).first().waitFor();
    }
    for (const colour of ["package", "kind", "binary", "value", "mono"]) await visit(page, server, `${EXPLORE}&colour=${colour}`);
});

test("live refresh brings new data and leaves the zoom alone", async ({ page, server }) => {
    await visit(page, server, "/explore?s=payments&t=cpu&from=now-2h&root=main&root=handle");
    const before = await details(page).innerText();
    const { makePprof } = await import("./lib/pprof.mjs");
    await server.push(makePprof({ types: [["samples", "count"], ["cpu", "nanoseconds"]], period: 10_000_000, startMs: Date.now() - 1000,
        stacks: [{ frames: ["main", "handle", "brandnew"], values: [500, 5_000_000_000] }] }), { "service.name": "payments", "service.version": "1.0.0" });
    await page.getByRole("button", { name: "Ask again" }).click();
    await page.waitForFunction((old) => document.querySelector("footer.details")?.innerText !== old, before);
    assert.deepEqual(params(page).getAll("root"), ["main", "handle"]);
});

test("the viewer in one file works without a server", async ({ page, server, context }) => {
    const html = await (await fetch(`${server.url}/api/v1/flame.html?query=${encodeURIComponent('cpu{service.name="checkout"}')}&from=now-2h`)).text();
    const file = join(tmpdir(), `vesta-viewer-${process.pid}.html`);
    writeFileSync(file, html);
    await context.setOffline(true);
    await page.goto(`file://${file}`);
    await page.getByRole("tree").first().waitFor();
    await page.getByRole("tab", { name: "Top" }).click();
    await page.getByText("regexp.MustCompile").first().waitFor();
});
