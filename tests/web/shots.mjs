// Pictures of pages, to be looked at: node shots.mjs FOLDER [NAME...]
// Each at desktop and narrow widths, light and dark. With VESTA_URL an existing server is used.

import { mkdirSync } from "node:fs";
import { ADDRESSES } from "./lib/addresses.mjs";
import { launch, SIZES } from "./lib/harness.mjs";
import { seed } from "./lib/seed.mjs";
import { Server } from "./lib/server.mjs";

const [folder = "shots", ...names] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const server = process.env.VESTA_URL ? null : await Server.start();
if (server) await seed(server);
const url = server?.url ?? process.env.VESTA_URL;
const browser = await launch();
for (const [size, [width, height]] of Object.entries(SIZES)) {
    for (const scheme of ["light", "dark"]) {
        const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, reducedMotion: "reduce" });
        const page = await context.newPage();
        page.on("pageerror", (e) => console.log(`script error: ${e.message}`));
        for (const [name, address] of Object.entries(ADDRESSES)) {
            if (names.length && !names.includes(name)) continue;
            await page.goto(url + address);
            await page.waitForFunction(() => !document.querySelector(".skeleton, [aria-busy=true]"), null, { timeout: 5000 })
                .catch(() => console.log(`${name}: still loading after 5 s`));
            await page.waitForTimeout(200);
            await page.screenshot({ path: `${folder}/${name}-${size}-${scheme}.png` });
        }
        await context.close();
    }
}
await browser.close();
await server?.end();
