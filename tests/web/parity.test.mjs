// What the pages say equals what go tool pprof says of the same file, whatever is drawn.

import assert from "node:assert/strict";
import { accounted, corpusFile, corpusPath, noPprof, peekRows, pprof, topRows } from "./lib/corpus.mjs";
import { test, visit } from "./lib/harness.mjs";

const FILE = "pprof/go119/cpu.pb.gz";
const RANGE = "from=now-3650d&t=cpu";

/** Rows of a table on screen: name, and the exact values that its cells tell. */
function tableRows(page, label) {
    return page.getByRole("grid", { name: label }).first().evaluate((grid) => {
        const exact = (cell) => Number((cell?.title ?? "").replace(/[^-\d.−]/g, "").replace("−", "-"));
        return [...grid.querySelectorAll("[role=row]")].map((row) => ({
            name: (row.querySelector(".frame-name") ?? row.querySelector("[role=rowheader]"))?.textContent?.replace(/[\u2068\u2069]/g, ""),
            exact: [...row.querySelectorAll("[role=gridcell]")].filter((c) => c.title).map(exact),
        })).filter((r) => r.name);
    });
}

async function store(server, file, service, more = {}) {
    await server.push(corpusFile(file), { "service.name": service }, more);
}

test("Top equals pprof -top", { skip: noPprof }, async ({ page, server }) => {
    await store(server, FILE, "parity");
    await visit(page, server, `/explore?s=parity&${RANGE}&view=top`);
    const wanted = topRows(pprof("-top", "-unit=ns", "-nodecount=100000", "-nodefraction=0", corpusPath(FILE)));
    const rows = await tableRows(page, /./);
    assert.ok(rows.length >= 20, `${rows.length} rows on screen`);
    for (const { name, exact } of rows) {
        assert.ok(wanted.has(name), `pprof has no ${name}`);
        assert.deepEqual(exact.slice(0, 2), [wanted.get(name).flat, wanted.get(name).cum], name);
    }
});

test("Callers and callees equal pprof -peek", { skip: noPprof }, async ({ page, server }) => {
    await store(server, FILE, "parity");
    const name = "runtime.mallocgc";
    await visit(page, server, `/explore?s=parity&${RANGE}&view=callers&sel=${name}`);
    const wanted = peekRows(pprof("-peek", `^${name}$`, "-unit=ns", corpusPath(FILE)), name);
    for (const side of ["callers", "callees"]) {
        const rows = await tableRows(page, new RegExp(side === "callers" ? "callers|calls it" : "callees|it calls", "i"));
        assert.deepEqual(new Map(rows.map((r) => [r.name, r.exact[0]])), wanted[side], side);
    }
});

test("the total of a search equals pprof -focus", { skip: noPprof }, async ({ page, server }) => {
    await store(server, FILE, "parity");
    const wanted = accounted(pprof("-top", "-unit=ns", "-nodefraction=0", "-nodecount=100000", "-focus=(?i)malloc", corpusPath(FILE)));
    await visit(page, server, `/explore?s=parity&${RANGE}&search=malloc`);
    const all = (await server.api("top", { query: 'cpu{service.name="parity"}', from: "now-3650d", limit: 1 })).body.total;
    const share = `${((100 * wanted) / all).toPrecision(3)}`;
    await page.getByText(new RegExp(`${share.replace(".", "\\.")}\\d* %`)).first().waitFor();
});

test("Compare's table equals pprof -diff_base", { skip: noPprof }, async ({ page, server }) => {
    const files = ["pprof/go119/cpu.pb.gz", "pprof/go119/cpu-997hz.pb.gz"];
    await store(server, files[0], "parity");
    await store(server, files[1], "parity-b");
    const wanted = topRows(pprof("-top", "-unit=ns", "-nodecount=100000", "-nodefraction=0", "-diff_base", corpusPath(files[0]), corpusPath(files[1])));
    await visit(page, server, `/compare?s=parity-b&${RANGE}&a.s=parity&a.from=now-3650d&a.t=cpu&x.view=table&diff=absolute`);
    const rows = await tableRows(page, /./);
    assert.ok(rows.length >= 15, `${rows.length} rows on screen`);
    for (const { name, exact } of rows) {
        const flat = wanted.get(name)?.flat ?? 0; // pprof leaves out what did not change
        assert.ok(exact.includes(flat), `${name}: ${exact} has no ${flat}`);
    }
});
