// What bench_web.py prints: node measure.mjs FOLDER PROFILE SMALL
//
// Frames are measured the same way in both: a step (wheel with Ctrl: zoom; pressed pointer moved:
// pan) is dispatched, and its time is that of the handler plus that of the next animation frame,
// from its first callback until one pixel of every canvas that was drawn on was read back, which
// waits for software rendering to finish. Waiting for the screen is in neither.

import { execFileSync } from "node:child_process";
import { createReadStream, statSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { Server, VESTA } from "../../tests/web/lib/server.mjs";

const [work, profile, small] = process.argv.slice(2);
const need = createRequire(new URL("../../tests/web/package.json", import.meta.url));
const { chromium } = need("playwright-core");
const NODES = 1_000_000;
const WIDTH = 1600;
const HEIGHT = 900;

const say = (name, value, unit = "") =>
    console.log(`${name}: ${Number(value.toFixed(2))}${unit ? ` ${unit}` : ""}`);
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];
const part = (list, p) => [...list].sort((a, b) => a - b)[Math.floor(list.length * p)];

/** Runs before any script of a page: remembers canvases, and when the bytes of a tree were there. */
function watch() {
    const seen = (globalThis.seen = { contexts: new Set(), bytesAt: 0, size: 0, drawnAt: 0 });
    const getContext = HTMLCanvasElement.prototype.getContext;
    HTMLCanvasElement.prototype.getContext = function (...args) {
        const c = getContext.apply(this, args);
        if (c && this.isConnected) seen.contexts.add(c);
        return c;
    };
    seen.flush = () => {
        for (const c of seen.contexts) {
            if (!c.canvas.isConnected || c.canvas.width === 0) continue;
            if (c.getImageData) c.getImageData(0, 0, 1, 1);
            else if (c.readPixels)
                c.readPixels(0, 0, 1, 1, c.RGBA, c.UNSIGNED_BYTE, new Uint8Array(4));
        }
    };
    const arrayBuffer = Response.prototype.arrayBuffer;
    Response.prototype.arrayBuffer = async function () {
        const bytes = await arrayBuffer.call(this);
        if (this.url.includes("/flame")) {
            seen.bytesAt = performance.now();
            seen.size = bytes.byteLength;
            seen.bytes = bytes.slice(0);
            seen.bytesAt = performance.now();
        }
        return bytes;
    };
    const drawImage = CanvasRenderingContext2D.prototype.drawImage;
    CanvasRenderingContext2D.prototype.drawImage = function (...args) {
        if (seen.bytesAt > 0 && seen.drawnAt === 0) {
            seen.drawnAt = 1;
            // Behind everything that this task draws.
            queueMicrotask(() => {
                seen.flush();
                seen.drawnAt = performance.now();
            });
        }
        return drawImage.apply(this, args);
    };
}

/** The steps, in the page. */
async function steps({ selector, isPointer }) {
    const target = document.querySelector(selector);
    const box = target.getBoundingClientRect();
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    const at = (x, y) => ({
        clientX: box.left + x * box.width,
        clientY: box.top + y * box.height,
        bubbles: true,
        cancelable: true,
        button: 0,
        buttons: 1,
        pointerId: 1,
    });
    target.setPointerCapture = () => {};
    const times = [];
    async function step(dispatch) {
        await frame();
        await frame();
        let begun = 0;
        requestAnimationFrame(() => {
            begun = performance.now();
        });
        const start = performance.now();
        dispatch();
        const handled = performance.now() - start;
        await frame();
        globalThis.seen.flush();
        times.push(handled + performance.now() - begun);
    }
    const move = isPointer ? "pointermove" : "mousemove";
    const Kind = isPointer ? PointerEvent : MouseEvent;
    const drag = (x) => (isPointer ? target : window).dispatchEvent(new Kind(move, at(x, 0.5)));
    for (let round = 0; round < 3; round++) {
        for (let i = 0; i < 12; i++)
            await step(() =>
                target.dispatchEvent(
                    new WheelEvent("wheel", { ...at(0.2 + 0.3 * round, 0.5), ctrlKey: true, deltaY: -60 }),
                ),
            );
        target.dispatchEvent(new Kind(isPointer ? "pointerdown" : "mousedown", at(0.5, 0.5)));
        for (let i = 1; i <= 12; i++) await step(() => drag(0.5 - 0.03 * i));
        (isPointer ? target : window).dispatchEvent(
            new Kind(isPointer ? "pointerup" : "mouseup", at(0.14, 0.5)),
        );
        for (let i = 0; i < 12; i++)
            await step(() =>
                target.dispatchEvent(
                    new WheelEvent("wheel", { ...at(0.5, 0.5), ctrlKey: true, deltaY: 60 }),
                ),
            );
    }
    return times;
}

async function newPage(browser) {
    const page = await browser.newPage({ viewport: { width: WIDTH, height: HEIGHT } });
    await page.addInitScript(watch);
    page.on("pageerror", (e) => console.error(String(e)));
    return page;
}

/** Script that was asked for by the time the graph is there. */
async function measureLoad(browser, url) {
    const context = await browser.newContext({ viewport: { width: WIDTH, height: HEIGHT } });
    const page = await context.newPage();
    await page.addInitScript(watch);
    const scripts = new Map();
    page.on("response", async (r) => {
        if (/\.js(\?|$)/.test(r.url()) && r.ok())
            scripts.set(r.url(), await r.body().catch(() => Buffer.alloc(0)));
    });
    const times = [];
    for (let i = 0; i < 6; i++) {
        await page.goto(url);
        await page.waitForFunction(() => globalThis.seen.drawnAt > 1, null, { timeout: 60000 });
        const ms = await page.evaluate(() => {
            // Time in which an answer was waited for, once where questions overlap.
            const waits = performance
                .getEntriesByType("resource")
                .filter((e) => e.name.includes("/api/v1/"))
                .sort((a, b) => a.startTime - b.startTime);
            let until = 0;
            let waited = 0;
            for (const w of waits) {
                const end = Math.min(w.responseEnd, globalThis.seen.bytesAt);
                waited += Math.max(0, end - Math.max(until, w.startTime));
                until = Math.max(until, end);
            }
            return globalThis.seen.drawnAt - waited;
        });
        if (i > 0) times.push(ms);
    }
    let size = 0;
    let beside = 0;
    // What the page itself names must be there first; the rest comes when it is needed.
    const first = await page.evaluate(() =>
        [...document.querySelectorAll("script[src], link[rel=modulepreload]")].map(
            (e) => e.src || e.href,
        ),
    );
    for (const [name, body] of scripts) {
        const n = gzipSync(body, { level: 9 }).length;
        if (first.includes(name)) size += n;
        else beside += n;
    }
    say("shell_gzip_kb", size / 1000, "kB");
    say("beside_gzip_kb", beside / 1000, "kB");
    say("load_ms", median(times), "ms");
    await context.close();
}

function decoder() {
    const web = new URL("../../web/", import.meta.url).pathname;
    return execFileSync(
        join(web, "node_modules/.bin/esbuild"),
        [join(web, "src/core/tree_decode.ts"), "--bundle", "--format=iife", "--global-name=decoder"],
        { encoding: "utf8" },
    ).replace("var decoder", "globalThis.decoder");
}

async function measureOurs(browser, url) {
    const page = await newPage(browser);
    // Explore asks for fewer nodes at a time; here it gets them all.
    await page.route(/\/api\/v1\/flame\?/, (route) => {
        const all = new URL(route.request().url());
        all.searchParams.set("max_nodes", String(NODES));
        route.continue({ url: all.href });
    });
    await page.goto(url);
    await page.waitForFunction(() => globalThis.seen.drawnAt > 1, null, { timeout: 120000 });
    const seen = await page.evaluate(() => ({
        size: globalThis.seen.size,
        paint: globalThis.seen.drawnAt - globalThis.seen.bytesAt,
    }));
    say("tree_bytes_1m", seen.size, "bytes");
    await page.evaluate(decoder());
    const decoded = await page.evaluate(() => {
        const times = [];
        let n = 0;
        for (let i = 0; i < 5; i++) {
            const start = performance.now();
            n = globalThis.decoder.decodeTree(globalThis.seen.bytes).n;
            times.push(performance.now() - start);
        }
        return { n, times };
    });
    say("nodes", decoded.n);
    say("decode_ms_1m", median(decoded.times), "ms");
    say("first_paint_ms_1m", seen.paint, "ms");
    const times = await page.evaluate(steps, { selector: ".flame-tree", isPointer: true });
    await page.screenshot({ path: join(work, "ours.png") });
    await page.close();
    return times;
}

function serveSpeedscope() {
    const folder = join(work, "node_modules/speedscope/dist/release");
    const types = { html: "text/html", js: "text/javascript", css: "text/css", wasm: "application/wasm" };
    const server = createServer((q, r) => {
        const name = new URL(q.url, "http://x").pathname.slice(1) || "index.html";
        const path = name === "profile.txt" ? profile : join(folder, name);
        try {
            statSync(path);
        } catch {
            r.writeHead(404).end();
            return;
        }
        r.setHeader("content-type", types[name.split(".").pop()] ?? "text/plain");
        createReadStream(path).pipe(r);
    });
    return new Promise((done) => server.listen(0, "127.0.0.1", () => done(server)));
}

async function measureSpeedscope(browser) {
    const server = await serveSpeedscope();
    const base = `http://127.0.0.1:${server.address().port}`;
    const page = await newPage(browser);
    await page.goto(`${base}/#profileURL=${encodeURIComponent(`${base}/profile.txt`)}`);
    await page.waitForFunction(() => document.title.includes("profile.txt"), null, {
        timeout: 300000,
    });
    await page.waitForTimeout(2000);
    await page.keyboard.press("2"); // left heavy
    await page.waitForTimeout(5000);
    await page.evaluate(() => {
        // The large one of its canvases' panes gets the pointer.
        const all = [...document.querySelectorAll("canvas")].filter((c) => c.clientHeight > 200);
        const panes = all.map((c) => c.parentElement);
        panes.sort((a, b) => b.clientHeight * b.clientWidth - a.clientHeight * a.clientWidth);
        const inner = panes.find((p) => p.clientHeight < innerHeight - 20) ?? panes[0];
        inner.classList.add("bench-target");
    });
    const times = await page.evaluate(steps, { selector: ".bench-target", isPointer: false });
    await page.screenshot({ path: join(work, "speedscope.png") });
    await page.close();
    server.close();
    return times;
}

const server = await Server.start("--limits-query-memory", "2GiB", "--limits-body", "256MiB", "--limits-body-memory", "512MiB");
const browser = await chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader"],
});
try {
    const push = (name, file) =>
        execFileSync(VESTA, ["push", "--url", server.url, "--service", name, file], { stdio: "pipe" });
    push("million", profile);
    push("small", small);
    const address = (service) => `${server.url}/explore?v=1&s=${service}&t=samples&from=now-1d`;
    await measureLoad(browser, address("small"));
    const ours = await measureOurs(browser, address("million"));
    say("frame_median_ms_1m", median(ours), "ms");
    say("frame_p95_ms_1m", part(ours, 0.95), "ms");
    const theirs = await measureSpeedscope(browser);
    say("speedscope_frame_median_ms_1m", median(theirs), "ms");
    say("frame_ratio_vs_speedscope", median(ours) / median(theirs));
} finally {
    await browser.close();
    await server.end();
}
