// Compare, the function page and Memory, as a person uses them.

import assert from "node:assert/strict";
import { test, visit } from "./lib/harness.mjs";

const SIDES = "s=checkout&t=cpu&from=now-1h&a.s=checkout&a.t=cpu&a.from=now-2h&a.until=now-1h";
const TOTAL = "example.com/shop/cart.Total";
const params = (page) => new URL(page.url()).searchParams;

async function card(page, server, title, address = "/compare?s=checkout&t=cpu&from=now-2h") {
    await visit(page, server, address);
    return page.locator(".start-card", { hasText: title });
}

test("Compare: earlier times, versions, a label and the rest, services, a deployment", async ({ page, server }) => {
    await (await card(page, server, "Another time")).getByRole("button", { name: "Yesterday" }).click();
    assert.deepEqual(["a.from", "a.until"].map((k) => params(page).get(k)), ["now-26h", "now-1d"]);
    await (await card(page, server, "Version against")).getByRole("button", { name: "Compare" }).click();
    assert.equal(params(page).get("a.l"), "service.version=2.3.0");
    assert.equal(params(page).get("l"), "service.version=2.3.1");
    const label = await card(page, server, "One label value");
    await label.locator("select").first().selectOption("deployment.environment.name");
    await label.locator("select").last().selectOption("prod");
    await label.getByRole("button", { name: "Compare" }).click();
    assert.equal(params(page).get("a.l"), "deployment.environment.name!=prod");
    const services = await card(page, server, "Service against");
    await services.locator("select").first().selectOption("payments");
    await services.getByRole("button", { name: "Compare" }).click();
    assert.equal(params(page).get("a.s"), "payments");
    await (await card(page, server, "a deployment")).locator("li button").first().click();
    assert.equal(params(page).get("a.until"), params(page).get("from"));
});

test("Compare: keys choose the view, w swaps, back goes back, the mode is in the address", async ({ page, server }) => {
    await visit(page, server, `/compare?${SIDES}`);
    for (const [key, view] of [["2", "side"], ["3", "table"], ["4", "why"], ["1", null]]) {
        await page.keyboard.press(key);
        assert.equal(params(page).get("x.view"), view);
    }
    await page.keyboard.press("w");
    assert.equal(params(page).get("from"), "now-2h");
    await page.goBack();
    assert.equal(params(page).get("from") ?? "now-1h", "now-1h");
    await page.getByRole("button", { name: "Ratio", exact: true }).click();
    assert.equal(params(page).get("diff"), "ratio");
    await visit(page, server, `/compare?${SIDES.replaceAll("t=cpu", "t=inuse_space")}`);
    const absolute = page.getByRole("button", { name: "Absolute", exact: true });
    assert.equal(await absolute.getAttribute("aria-pressed"), "true");
});

test("Compare: the table says what is new, gone and significant, in words", async ({ page, server }) => {
    await visit(page, server, `/compare?s=payments&t=cpu&from=now-2h&a.s=checkout&a.t=cpu&a.from=now-2h&x.view=table`);
    await page.getByRole("button", { name: "Only in B" }).click();
    await page.locator(".dt-row", { hasText: "render" }).waitFor();
    assert.equal(await page.locator(".dt-row", { hasText: "cart" }).count(), 0);
    assert.match(await page.locator(".dt-row").first().innerText(), /only after/);
    await page.getByRole("button", { name: "Only in A" }).click();
    await page.locator(".dt-row", { hasText: "cart.price" }).waitFor();
});

test("Compare: own changes add up to the whole", async ({ page, server }) => {
    await visit(page, server, `/compare?${SIDES}&x.view=why&diff=absolute`);
    const rows = await page.locator(".cmp-bar-row:not(.is-sum)").allInnerTexts();
    assert.match(rows[0], /MustCompile/);
    assert.match(await page.locator(".cmp-bar-row.is-sum").innerText(), /\+/);
});

test("Compare: an empty side, types without a common unit, a file that is gone", async ({ page, server }) => {
    await visit(page, server, "/compare?s=checkout&t=cpu&from=now-2h&a.s=nobody&a.t=cpu&a.from=now-2h");
    await page.getByText("Side A is empty").waitFor();
    await visit(page, server, "/compare?s=checkout&t=cpu&from=now-2h&a.s=checkout&a.t=inuse_space&a.from=now-2h");
    await page.getByRole("button", { name: "cpu on both" }).click();
    assert.equal(params(page).get("a.t"), "cpu");
    await visit(page, server, "/compare?file=9-gone.pb.gz&a.s=checkout&a.t=cpu&a.from=now-2h");
    await page.getByText("only in the tab that opened it").waitFor();
});

test("the function page: services, callers, lines, versions; any name", async ({ page, server }) => {
    await visit(page, server, `/function?sel=${TOTAL}&from=now-2h&t=cpu`);
    await page.getByRole("link", { name: "example.com/shop/http.Serve" }).waitFor();
    await page.getByRole("link", { name: "example.com/shop/cart.price" }).waitFor();
    await page.getByRole("link", { name: /cart\.go:\d+/ }).first().waitFor();
    await page.getByRole("link", { name: "Compare with 2.3.0" }).click();
    await page.waitForURL(/\/compare\?.*2\.3\.1/);
    await visit(page, server, `/function?sel=${encodeURIComponent('<b>x</b> "& y')}&from=now-2h&t=cpu`);
    await page.getByRole("heading", { name: '<b>x</b> "& y' }).waitFor();
    await page.getByText("Not seen here").waitFor();
});

test("Memory: the verdict, what grows, who holds it; services without heaps are told how", async ({ page, server }) => {
    await visit(page, server, "/memory?s=checkout&from=now-2h");
    await page.getByRole("heading", { name: /Leak suspected/ }).waitFor();
    await page.getByText(/was allocated in example.com\/shop\/cache.Put/).waitFor();
    await page.getByRole("heading", { name: "3. Who holds it?" }).waitFor();
    await page.getByRole("link", { name: /Beginning against end/ }).click();
    await page.waitForURL(/\/compare\?.*diff=absolute/);
    await visit(page, server, "/memory?s=payments&from=now-2h");
    await page.getByText("No heap profiles here").waitFor();
});
