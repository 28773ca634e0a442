// Builds dist/esm and dist/cjs from src. The same sources serve both: they use no import.meta and
// no top-level await.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const tsc = createRequire(import.meta.url).resolve("typescript/bin/tsc");

function build(folder, type, ...options) {
    execFileSync(process.execPath, [tsc, "-p", here, "--outDir", path.join(here, folder), ...options], {
        stdio: "inherit",
    });
    writeFileSync(path.join(here, folder, "package.json"), `{ "type": "${type}" }\n`);
}

rmSync(path.join(here, "dist"), { recursive: true, force: true });
mkdirSync(path.join(here, "dist"));
build("dist/esm", "module");
build("dist/cjs", "commonjs", "--module", "CommonJS", "--moduleResolution", "Node10", "--ignoreDeprecations", "5.0");

// The package has the repository's licence, of which there is one copy.
const licence = path.join(here, "../../LICENSE");
if (existsSync(licence)) copyFileSync(licence, path.join(here, "LICENSE"));
