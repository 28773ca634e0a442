// A small runner: one Chromium, a fresh page for each test, a report as junit XML.
// Every test also fails on a script error, a broken policy, or a request to anywhere but our server.

import { writeFileSync } from "node:fs";
import { chromium } from "playwright-core";

const tests = [];

/** `options`: {width, height, dark, skip: reason, expectErrors, offline} */
export function test(name, options, body) {
    if (typeof options === "function") [options, body] = [{}, options];
    tests.push({ name, options, body });
}

/** Opens an address and waits until nothing loads any more. */
export async function visit(page, server, address) {
    await page.goto(server.url + address);
    await page.waitForSelector("main");
    await page.waitForFunction(() => !document.querySelector(".skeleton, [aria-busy=true]"));
}

export const SIZES = { desktop: [1440, 900], narrow: [390, 844] };

export function launch() {
    return chromium.launch({
        executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
        args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync", "--disable-quic",
            "--disable-background-networking", "--disable-component-update"],
    });
}

async function open(browser, options, server, problems) {
    const [width, height] = [options.width ?? 1440, options.height ?? 900];
    const context = await browser.newContext({
        viewport: { width, height },
        colorScheme: options.dark ? "dark" : "light",
        reducedMotion: "reduce",
        acceptDownloads: true,
        permissions: ["clipboard-read", "clipboard-write"],
    });
    context.setDefaultTimeout(options.timeout ?? 10_000);
    const page = await context.newPage();
    page.on("pageerror", (e) => problems.push(`script error: ${e.message}\n${e.stack}`));
    page.on("console", (m) => {
        if (m.type() !== "error") return;
        const isExpected = options.expectErrors && /Failed to load resource|net::ERR/.test(m.text());
        if (!isExpected) problems.push(`console: ${m.text()}`);
    });
    page.on("request", (r) => {
        const isOurs = r.url().startsWith(server?.url ?? "file:") || /^(blob|data|file|about):/.test(r.url());
        if (!isOurs) problems.push(`a request to ${r.url()}`);
    });
    return { context, page };
}

const escape = (s) => s.replace(/[<>&"\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, (c) => `&#${c.charCodeAt(0)};`.replace(/^&#([0-8]|1[1-9]|2\d|3[01]);$/, "?"));

function report(path, results) {
    const cases = results.map((r) => {
        const inner = r.skipped ? `<skipped message="${escape(r.skipped)}"/>`
            : r.error ? `<failure message="${escape(String(r.error.message ?? r.error).slice(0, 300))}">${escape(String(r.error.stack ?? r.error))}</failure>` : "";
        return `<testcase classname="web" name="${escape(r.name)}" time="${(r.ms / 1000).toFixed(3)}">${inner}</testcase>`;
    });
    writeFileSync(path, `<testsuite name="web">${cases.join("\n")}</testsuite>\n`);
}

async function runOne(browser, t, world) {
    if (t.options.skip) return { name: t.name, ms: 0, skipped: t.options.skip };
    const started = performance.now();
    const problems = [];
    let opened = null;
    let error = null;
    try {
        opened = await open(browser, t.options, world.server, problems);
        await t.body({ ...opened, ...world, problems });
        if (problems.length) throw new Error(problems.join("\n"));
    } catch (e) {
        error = problems.length && !problems.some((p) => e.message?.includes(p)) ? new Error(`${e.stack}\nand: ${problems.join("\n")}`) : e;
        await opened?.page.screenshot({ path: `/tmp/vesta-web-failed-${tests.indexOf(t)}.png` }).catch(() => {});
    }
    await opened?.context.close().catch(() => {});
    return { name: t.name, ms: performance.now() - started, error };
}

/** Runs what was registered; the number of failures. */
export async function run(world, { filter, junit } = {}) {
    const browser = await launch();
    const results = [];
    for (const t of tests) {
        if (filter && !t.name.includes(filter)) continue;
        const r = await runOne(browser, t, world);
        results.push(r);
        const mark = r.skipped ? `skip (${r.skipped})` : r.error ? "FAILED" : "ok";
        if (r.error || process.env.VERBOSE) console.log(`${mark} ${r.name} (${Math.round(r.ms)} ms)`);
        if (r.error) console.log(String(r.error.stack ?? r.error).slice(0, 700));
    }
    await browser.close();
    if (junit) report(junit, results);
    const failed = results.filter((r) => r.error).length;
    const skipped = results.filter((r) => r.skipped).length;
    console.log(`${results.length - failed - skipped} passed, ${failed} failed, ${skipped} skipped`);
    return failed;
}
