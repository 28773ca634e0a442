// The oldest and the newest versions of Node that are supported, each with everything for a moment.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { nodeProgram, openTelemetry } from "./lib/packages.mjs";

const run = promisify(execFile);
const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const KEPT = 20 * 20000 * 8; // bytes that stay, at least

function assertSmoke(text) {
    const found = JSON.parse(text);
    assert.deepEqual(found.errors, []);
    assert.deepEqual(found.kinds, ["alloc", "cpu", "event_loop", "heap"]);
    assert.ok(found.cpu.sum > 2e6, `CPU ${found.cpu.sum}`);
    assert.ok(found.cpu.linked > 0.9 * found.cpu.sum, `linked ${found.cpu.linked}`);
    assert.deepEqual(found.cpu.routes, ["/smoke"]);
    assert.ok(Math.abs(found.blocked.sum / 150e6 - 1) < 0.3, `blocked ${found.blocked.sum}`);
    assert.ok(found.allocated > 0.9 * KEPT, `allocated ${found.allocated}`);
    assert.ok(found.live > 0.9 * KEPT && found.live < 2.5 * KEPT, `live ${found.live}`);
}

for (const version of ["18", "22", "24"]) {
    test(`Node ${version}`, async (t) => {
        const folder = openTelemetry();
        const node = nodeProgram(version);
        if (!folder || !node) return t.skip(`npm could not install Node ${version}`);
        const smoke = await run(node, [here("lib/smoke.mjs"), folder]);
        assert.equal(smoke.stderr, "");
        assertSmoke(smoke.stdout);
        const cases = await run(node, [here("lib/span_cases.mjs"), folder], {
            env: { ...process.env, CASE_MILLIS: "10" },
        });
        for (const [name, row] of Object.entries(JSON.parse(cases.stdout).result)) {
            // A sample at the very switch may fall on the other side.
            assert.ok(row.right >= row.samples - 2, `${name}: ${JSON.stringify(row)}`);
        }
    });
}
