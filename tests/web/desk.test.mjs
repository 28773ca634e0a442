// The pages around Explore: from a symptom to its view, files that are opened and kept, spans,
// findings, agents and what they are told, administration, the login.

import assert from "node:assert/strict";
import { test, visit } from "./lib/harness.mjs";
import { makePprof } from "./lib/pprof.mjs";
import { Server } from "./lib/server.mjs";

const folded = (name, text) => ({ name, mimeType: "text/plain", buffer: Buffer.from(text) });
const card = (page, name) => page.getByRole("article", { name, exact: true });
const noAlert = async (page) => assert.deepEqual(await page.locator("[role=alert]").allInnerTexts(), []);

async function openFiles(page, server, ...files) {
    await visit(page, server, "/open");
    await page.setInputFiles("input[type=file]", files);
    await page.waitForFunction((n) => document.querySelectorAll(".open-facts, .open-card [role=alert]").length === n, files.length);
}

/** A server of its own for what changes a server. */
async function withServer(body, ...args) {
    const own = await Server.start(...args);
    try {
        await body(own);
    } finally {
        await own.end();
    }
}

// ---- Home

test("home: every symptom leads to a view that answers, with its trail", { timeout: 20_000 }, async ({ page, server }) => {
    await visit(page, server, "/?s=checkout");
    const links = await page.locator("a.home-symptom").evaluateAll((all) => all.map((a) => a.href));
    assert.ok(links.length >= 15);
    for (const link of links) {
        await visit(page, server, link.slice(server.url.length));
        await noAlert(page);
        assert.ok(new URL(page.url()).searchParams.get("symptom"));
    }
});

test("home: services by cost, deployments with before and after", async ({ page, server }) => {
    await visit(page, server, "/");
    await page.getByRole("link", { name: "checkout", exact: true }).waitFor();
    await page.getByRole("link", { name: "Before / after checkout 2.3.1" }).click();
    await page.waitForFunction(() => location.pathname === "/compare");
    const q = new URL(page.url()).searchParams;
    assert.equal(q.get("from"), q.get("a.until"), "both sides meet at the deployment");
});

test("home: a server without data says how to send some, and notices the first", async ({ context }) => {
    await withServer(async (own) => {
        const page = await context.newPage();
        await visit(page, own, "/");
        await page.getByText("Send the first profile").waitFor();
        assert.match(await page.locator("main").innerText(), new RegExp(`vesta push --url ${own.url}`));
        await own.push(makePprof({ startMs: Date.now() - 60_000, stacks: [{ frames: ["main"], values: [1] }] }), { "service.name": "newborn" });
        await page.getByRole("link", { name: "newborn" }).waitFor();
        await page.close();
    });
});

// ---- Files

test("open: a file is told what it is, and looked at", async ({ page, server }) => {
    await openFiles(page, server, folded("a.folded", "main;a;b 4\nmain;c 6\n"));
    const text = await card(page, "a.folded").innerText();
    assert.match(text, /collapsed stacks/);
    await card(page, "a.folded").getByRole("link", { name: "Open in Explore" }).click();
    await page.waitForFunction(() => location.pathname === "/explore" && !document.querySelector(".skeleton"));
    await noAlert(page);
});

test("open: two files are compared", async ({ page, server }) => {
    await openFiles(page, server, folded("a.folded", "main;a 4\n"), folded("b.folded", "main;a 9\nmain;b 1\n"));
    const b = card(page, "b.folded");
    await b.locator("select").selectOption({ label: "a.folded" });
    await b.getByRole("link", { name: "Compare" }).click();
    await page.waitForFunction(() => location.pathname === "/compare" && !document.querySelector(".skeleton"));
    await noAlert(page);
});

test("open: what is pasted is a file, what is none is refused in the server's words", { expectErrors: true }, async ({ page, server }) => {
    await openFiles(page, server, folded("bad.bin", "garbage <b>x</b>"));
    await page.getByText("not a profile in any known format").waitFor();
    await page.evaluate(() => {
        const data = new DataTransfer();
        data.setData("text/plain", "main;a 3\n");
        document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
    });
    await card(page, "pasted.txt").locator(".open-facts").waitFor();
    await card(page, "bad.bin").getByRole("button", { name: "Close bad.bin" }).click();
    assert.equal(await card(page, "bad.bin").count(), 0);
});

test("open: a file that is too large is not sent", async ({ context }) => {
    await withServer(async (own) => {
        const page = await context.newPage();
        await visit(page, own, "/open");
        await page.getByText("Up to 64 KiB").waitFor();
        await page.setInputFiles("input[type=file]", folded("big.folded", "main;a 1\n".repeat(20_000)));
        await page.getByText(/limits\.body/).waitFor();
        assert.equal(await card(page, "big.folded").count(), 0);
        await page.close();
    }, "--limits-body", "64KiB");
});

test("open: a file is kept and its link shows it; one too old is stored as of now", { expectErrors: true }, async ({ context }) => {
    await withServer(async (own) => {
        const page = await context.newPage();
        const old = makePprof({ startMs: Date.parse("2020-01-01T00:00:00Z"), stacks: [{ frames: ["main", "ancient"], values: [7] }] });
        await openFiles(page, own, { name: "old.pb.gz", mimeType: "", buffer: old });
        const c = card(page, "old.pb.gz");
        await c.getByRole("button", { name: "Keep" }).click();
        await c.getByRole("button", { name: "Store it as if taken now" }).click();
        await c.getByRole("link", { name: "The stored profile" }).click();
        await page.waitForFunction(() => location.pathname === "/explore" && !document.querySelector(".skeleton"));
        assert.match(decodeURIComponent(page.url()), /l=vesta\.upload=/);
        const link = page.url();
        await page.goto(link); // by itself, as somebody else would open it
        await page.waitForFunction(() => !document.querySelector(".skeleton, [aria-busy=true]"));
        await noAlert(page);
        await page.close();
    });
});

// ---- Spans

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";

async function pushSpans(own) {
    const now = Date.now();
    const ns = (ms) => `${BigInt(Math.round(ms)) * 1_000_000n}`;
    const span = (i, ms) => ({
        traceId: i === 0 ? TRACE : String(i).padStart(32, "1"), spanId: i === 0 ? SPAN : String(i).padStart(16, "1"),
        name: "GET /cart", kind: 2, startTimeUnixNano: ns(now - 60_000 - i * 1000), endTimeUnixNano: ns(now - 60_000 - i * 1000 + ms),
        status: i === 3 ? { code: 2 } : {},
    });
    const spans = Array.from({ length: 40 }, (_, i) => span(i, i === 0 ? 900 : 20));
    const body = JSON.stringify({ resourceSpans: [{ resource: { attributes: [{ key: "service.name", value: { stringValue: "shop" } }] }, scopeSpans: [{ spans }] }] });
    const r = await fetch(`${own.url}/v1/traces`, { method: "POST", headers: { "content-type": "application/json" }, body });
    assert.ok(r.ok, await r.text());
    await own.push(makePprof({
        startMs: now - 61_000, stacks: [
            { frames: ["main", "slow"], values: [50_000_000], labels: { trace_id: TRACE, span_id: SPAN } },
            { frames: ["main", "other"], values: [80_000_000] },
        ],
    }), { "service.name": "shop" });
}

test("traces: from an operation to its slow span to the profile of that span", async ({ context }) => {
    await withServer(async (own) => {
        await pushSpans(own);
        const page = await context.newPage();
        await visit(page, own, "/traces");
        assert.match(await page.locator("tbody tr").first().innerText(), /GET \/cart.*40.*1 \(2\.5 %\)/s);
        await page.getByRole("link", { name: "GET /cart" }).click();
        await page.getByText("900 ms").first().waitFor();
        await page.getByRole("link", { name: "this span" }).first().click();
        await page.waitForFunction(() => location.pathname === "/explore" && !document.querySelector(".skeleton"));
        const q = new URL(page.url()).searchParams;
        assert.deepEqual([q.get("trace"), q.get("span")], [TRACE, SPAN]);
        await page.getByText("50 ms").first().waitFor();
        await visit(page, own, "/traces?x.tab=heaviest");
        assert.equal(await page.locator("tbody tr").count(), 1);
        await page.close();
    });
});

test("traces: without spans it says where they come from", async ({ page, server }) => {
    await visit(page, server, "/traces?from=now-15m");
    await page.getByText("No spans in this range").waitFor();
    await page.getByText("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT").waitFor();
});

// ---- Findings

test("insights: findings have the server's numbers, lead to them, and can be muted", async ({ page, server }) => {
    await visit(page, server, "/insights?s=checkout&from=now-2h");
    const regex = page.getByRole("article", { name: "Regular expressions are compiled at run time: checkout" });
    await regex.waitFor();
    const { body } = await server.api("search", { query: 'cpu{service.name="checkout"}', from: "now-2h", match: "regexp\\.MustCompile" });
    const share = ((100 * body.matched_cum) / body.total).toFixed(1);
    assert.match(await regex.innerText(), new RegExp(`${share.replace(/\.0$/, "")} %`));
    await regex.getByRole("button", { name: /^Mute/ }).click();
    await page.getByRole("button", { name: "Show 1 muted" }).click();
    await page.getByRole("button", { name: /^Unmute/ }).click();
    await regex.getByRole("link", { name: "Show in Explore" }).click();
    await page.waitForFunction(() => location.pathname === "/explore");
    assert.match(new URL(page.url()).searchParams.get("focus"), /MustCompile/);
    await page.goBack();
    await page.getByText(/What was checked: \d+ rules on checkout/).click();
    await page.getByText("not collected").first().waitFor();
});

// ---- Agents

test("fleet and triggers: health, what agents are told, a capture by hand", async ({ context }) => {
    await withServer(async (own) => {
        const page = await context.newPage();
        await visit(page, own, "/fleet");
        await page.getByText("No agent has announced itself").waitFor();
        for (const [id, ahead] of [["a1", 0], ["a2", 95]]) {
            const time = `${BigInt(Date.now() + ahead * 1000) * 1_000_000n}`;
            const said = { id, kind: "agent", version: "0.1.0", host: `host-${id}`, services: ["shop"], mode: "normal", rate: 19, samples: 1000, lost: 0, types: ["cpu"], cpu_percent: 0.5, memory_bytes: 1 << 25, time_ns: time };
            await fetch(`${own.url}/api/v1/agents/heartbeat`, { method: "POST", body: JSON.stringify(said) });
        }
        await page.getByRole("button", { name: "Ask again" }).click();
        await page.getByText(/clock 9\d s ahead/).waitFor();
        await page.getByRole("link", { name: "host-a1" }).click();
        await page.getByRole("button", { name: "low", exact: true }).click();
        await page.getByRole("button", { name: "Tell it" }).click();
        await page.locator(".fleet-told", { hasText: /^low/ }).waitFor();
        await visit(page, own, "/triggers");
        await page.getByLabel("Service").selectOption("shop");
        await page.getByRole("button", { name: "Capture" }).click();
        await page.getByText("Started.").waitFor();
        await page.getByRole("button", { name: "End burst of service shop" }).click();
        await page.getByRole("button", { name: "End burst of service shop" }).waitFor({ state: "detached" });
        await page.close();
    });
});

// ---- Administration

test("admin: the first token closes the server and this browser has it; others log in", { expectErrors: true }, async ({ context, browser }) => {
    await withServer(async (own) => {
        const page = await context.newPage();
        await visit(page, own, "/admin?x.tab=tokens");
        const make = async (name, roles) => {
            await page.getByRole("button", { name: "New token" }).click();
            await page.getByLabel("Name: what it is for").fill(name);
            for (const role of ["ingest", "read", "admin"])
                await page.getByRole("checkbox", { name: new RegExp(`^${role} `) }).setChecked(roles.includes(role));
            await page.getByRole("button", { name: "Make" }).click();
            const secret = await page.locator("dialog code").innerText();
            await page.getByRole("button", { name: "Done" }).click();
            await page.getByRole("cell", { name, exact: true }).waitFor();
            return secret;
        };
        await make("me", ["admin"]);
        const secret = await make("reader", ["read"]);
        const other = await (browser ?? context.browser()).newContext();
        const guest = await other.newPage();
        await guest.goto(`${own.url}/`);
        await guest.getByRole("textbox", { name: "Token" }).fill("wrong");
        await guest.getByRole("button", { name: "Enter" }).click();
        await guest.locator("[role=alert]").waitFor();
        await guest.getByRole("textbox", { name: "Token" }).fill(secret);
        await guest.getByRole("button", { name: "Enter" }).click();
        await guest.getByText("Send the first profile").waitFor();
        await guest.goto(`${own.url}/admin`);
        await guest.getByText("The role “admin” is missing").waitFor();
        await page.getByRole("button", { name: "Revoke reader" }).click();
        await page.getByRole("button", { name: "Revoke", exact: true }).click();
        await page.getByRole("cell", { name: "revoked" }).waitFor();
        await guest.goto(`${own.url}/`);
        await guest.getByRole("textbox", { name: "Token" }).waitFor();
        await other.close();
        await page.close();
    });
});

test("admin: limits of a tenant, erasing what was counted, the audit log of it", async ({ context }) => {
    await withServer(async (own) => {
        for (const name of ["keep", "drop"])
            await own.push(makePprof({ startMs: Date.now() - 60_000, stacks: [{ frames: ["main"], values: [1] }] }), { "service.name": name });
        const page = await context.newPage();
        await visit(page, own, "/admin?x.tab=tenants");
        await page.getByRole("button", { name: "Set limits" }).click();
        await page.getByLabel("Name").fill("acme");
        await page.getByLabel("Most on disk").fill("10GiB");
        await page.getByRole("button", { name: "Set", exact: true }).click();
        await page.getByRole("cell", { name: "10 GiB" }).waitFor();
        await visit(page, own, "/admin?x.tab=erase");
        await page.getByLabel(/^Selector/).fill('{service.name="drop"}');
        await page.getByLabel(/^From/).fill("0");
        await page.getByRole("button", { name: "Count" }).click();
        await page.getByText("1 profile is selected").waitFor();
        await page.getByRole("button", { name: /^Erase/ }).click();
        assert.ok(await page.getByRole("button", { name: "Erase for good" }).isDisabled());
        await page.getByLabel(/^Type erase/).fill("erase");
        await page.getByRole("button", { name: "Erase for good" }).click();
        await page.getByText("1 profile was erased").waitFor();
        const { body } = await own.api("services");
        assert.deepEqual(body.services.map((s) => s.service), ["keep"]);
        await visit(page, own, "/admin?x.tab=audit");
        assert.deepEqual(await page.locator("tbody td:nth-child(5)").allInnerTexts(), ["erase", "tenant.put"]);
        await page.close();
    });
});
