// Runs the tests of the pages: node run.mjs [--junit FILE] [FILTER]
// VESTA_BUILD is the folder of the programs; VERBOSE=1 lists every test.

import { readdirSync } from "node:fs";
import { run } from "./lib/harness.mjs";
import { seed } from "./lib/seed.mjs";
import { Server } from "./lib/server.mjs";

const args = process.argv.slice(2);
const at = args.indexOf("--junit");
const junit = at >= 0 ? args.splice(at, 2)[1] : undefined;

for (const file of readdirSync(new URL(".", import.meta.url)).filter((f) => f.endsWith(".test.mjs")).sort())
    await import(new URL(file, import.meta.url).href);

const server = await Server.start();
let failed = 1;
try {
    const seeded = await seed(server);
    failed = await run({ server, ...seeded }, { filter: args[0], junit });
} finally {
    await server.end();
}
process.exit(failed > 0 ? 1 : 0);
