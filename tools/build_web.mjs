// Makes the web UI part of the programs: installs its packages where they are missing or old, bundles
// the pages and the viewer of a single file, packs every file, and writes all of it as one C source
// (src/server/web_assets.h says what is in it).
//
// usage: node build_web.mjs WEB_FOLDER OUTPUT.c DEPFILE NPM
//
// Nothing but that output, a folder beside it and WEB_FOLDER/node_modules is written, so several build
// folders may do this at once. It says nothing unless something is wrong.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import process from "node:process";
import vm from "node:vm";
import zlib from "node:zlib";

const [, , webArgument, output, depfile, npm] = process.argv;
const web = path.resolve(webArgument);
const work = `${path.resolve(output)}.d`;

const TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".wasm": "application/wasm",
    ".webmanifest": "application/manifest+json",
};

function fail(words) {
    const folder = process.cwd(); // where ninja runs this
    process.stderr.write(`${words}\nWithout the web UI: meson configure ${folder} -Dweb=disabled\n`);
    process.exit(1);
}

function wait(ms) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

function run(command, args, env = {}) {
    const done = spawnSync(command, args, {
        cwd: web,
        encoding: "utf8",
        env: { ...process.env, ...env },
        maxBuffer: 64 << 20,
    });
    const text = done.error ? String(done.error) : `${done.stdout}${done.stderr}`;
    return { isDone: done.status === 0, text };
}

/* ---- Packages */

const modules = path.join(web, "node_modules");

function modified(file) {
    return fs.statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0;
}

function isInstalled() {
    const installed = modified(path.join(modules, ".package-lock.json"));
    return installed > 0 && installed >= modified(path.join(web, "package-lock.json"));
}

function isAlive(pid) {
    try {
        process.kill(pid, 0);
        return true;
    } catch (error) {
        return error.code === "EPERM";
    }
}

/** One at a time: the folder of packages belongs to all build folders. Returns how to let go. */
function lock() {
    const file = path.join(modules, ".installing");
    fs.mkdirSync(modules, { recursive: true });
    for (;;) {
        try {
            fs.writeFileSync(file, String(process.pid), { flag: "wx" });
            return () => fs.rmSync(file, { force: true });
        } catch (error) {
            if (error.code !== "EEXIST") throw error;
        }
        const holder = Number(fs.existsSync(file) ? fs.readFileSync(file, "utf8") : 0);
        const isOld = Date.now() - modified(file) > 5000; // who just made it has yet to write its pid
        if (isOld && modified(file) > 0 && !(holder > 0 && isAlive(holder)))
            fs.rmSync(file, { force: true });
        wait(200);
    }
}

const NETWORK = /ECONN|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|ERR_SOCKET|network|E50[0-9]|E429|integrity/i;

/** What npm says without the stacks of its own code. */
function shortened(text) {
    const lines = text.split("\n").filter((line) => !/^npm \S+\s+at |^npm \S+\s*$/.test(line));
    return lines.slice(0, 12).join("\n").trimEnd();
}

/** Not `npm ci`: the lock file names the packages of the platform it was made on only. */
function install() {
    const args = ["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"];
    for (let tries = 1; ; tries++) {
        const { isDone, text } = run(npm, [...args, "--loglevel=error"]);
        if (isDone) break;
        if (tries < 3 && NETWORK.test(text)) {
            wait(2000 * tries);
            continue;
        }
        fail(
            `${shortened(text)}\n\nnpm could not install the packages that the web UI is built with. ` +
                `Is its registry reachable from here (npm ping)?\nOnce it is: npm --prefix ${web} ` +
                "install --no-save --ignore-scripts",
        );
    }
    const now = new Date();
    const mark = path.join(modules, ".package-lock.json");
    if (!fs.existsSync(mark)) fs.writeFileSync(mark, "{}"); // npm did as asked and left none
    fs.utimesSync(mark, now, now);
}

function installWhereMissing() {
    if (isInstalled()) return;
    const release = lock();
    process.on("exit", release);
    if (!isInstalled()) install();
    release();
}

/* ---- Bundles */

function bundle(config, variable) {
    const folder = path.join(work, variable.toLowerCase());
    const vite = path.join(modules, "vite", "bin", "vite.js");
    const args = [vite, "build", "--config", config, "--logLevel", "error"];
    const { isDone, text } = run(process.execPath, args, {
        [variable]: folder,
        NODE_ENV: "production",
    });
    if (!isDone) fail(`${text.trimEnd()}\n\nthe web UI could not be built (${config})`);
    return folder;
}

function filesBelow(folder, under = "") {
    return fs
        .readdirSync(path.join(folder, under), { withFileTypes: true })
        .flatMap((entry) =>
            entry.isDirectory()
                ? filesBelow(folder, path.posix.join(under, entry.name))
                : [path.posix.join(under, entry.name)],
        )
        .sort();
}

function foldersBelow(folder) {
    return fs
        .readdirSync(folder, { withFileTypes: true })
        .filter((entry) => entry.isDirectory())
        .flatMap((entry) => [
            path.join(folder, entry.name),
            ...foldersBelow(path.join(folder, entry.name)),
        ]);
}

/* ---- The C source */

/** A string literal of these bytes, as an initializer of a struct bytes. */
function literal(data) {
    if (data.length === 0) return "{0}";
    const lines = [];
    for (let at = 0; at < data.length; at += 32) {
        let line = "";
        for (const byte of data.subarray(at, at + 32))
            line += `\\${byte.toString(8).padStart(3, "0")}`;
        lines.push(`    "${line}"`);
    }
    return `{(const uint8_t *)\n${lines.join("\n")},\n    ${data.length}}`;
}

function smaller(packed, plain) {
    return packed.length < plain.length ? packed : Buffer.alloc(0);
}

function assetRow(folder, file) {
    const type = TYPES[path.extname(file)];
    if (!type) fail(`the web UI has a file whose type is not known: ${file} (tools/build_web.mjs)`);
    const plain = fs.readFileSync(path.join(folder, file));
    const gzip = smaller(zlib.gzipSync(plain, { level: 9 }), plain);
    const brotli = smaller(zlib.brotliCompressSync(plain), plain); // 11 is its default
    const etag = createHash("sha256").update(plain).digest("hex").slice(0, 24);
    // What the bundler puts into assets/ has its content's hash in its name.
    const isHashed = file.startsWith("assets/");
    return (
        `    {.path = "/${file}", .type = "${type}", .etag = "${etag}", .is_hashed = ${isHashed},\n` +
        `    .plain = ${literal(plain)},\n    .gzip = ${literal(gzip)},\n` +
        `    .brotli = ${literal(brotli)}},\n`
    );
}

/** The page, taken apart where the server writes something in. */
function pageParts(html) {
    const base = '<base href="/">';
    const boot = '<script type="application/json" id="boot">{}</script>';
    const parts = html.split(base);
    const rest = (parts[1] ?? "").split(boot);
    if (parts.length !== 2 || rest.length !== 2)
        fail(`web/index.html must have, once and in this order: ${base} and ${boot}`);
    return [
        `${parts[0]}<base href="`,
        `">${rest[0]}<script type="application/json" id="boot">`,
        `</script>${rest[1]}`,
    ].map((part) => Buffer.from(part));
}

/** A bundle that cannot end the element it stands in. */
function inlineScript(text) {
    const safe = text
        .replaceAll("\r", "")
        .replace(/<\/(?=script)/gi, "\\x3c/")
        .replaceAll("<!--", "\\x3c!--");
    new vm.Script(safe); // throws where that broke it
    return Buffer.from(safe);
}

function inlineStyle(text) {
    const safe = text.replaceAll("\r", "").replace(/<\/(?=style)/gi, "<\\/");
    return Buffer.from(safe);
}

function policyHash(data) {
    return `sha256-${createHash("sha256").update(data).digest("base64")}`;
}

function source(pages, viewer) {
    const [beforeBase, beforeBoot, afterBoot] = pageParts(
        fs.readFileSync(path.join(pages, "index.html"), "utf8"),
    );
    const script = inlineScript(fs.readFileSync(path.join(viewer, "viewer.js"), "utf8"));
    const style = inlineStyle(fs.readFileSync(path.join(viewer, "viewer.css"), "utf8"));
    const rows = filesBelow(pages)
        .filter((file) => file !== "index.html")
        .map((file) => assetRow(pages, file));
    return (
        '#include "server/web_assets.h"\n\n' +
        `const struct web_page web_page = {\n    .before_base = ${literal(beforeBase)},\n` +
        `    .before_boot = ${literal(beforeBoot)},\n    .after_boot = ${literal(afterBoot)},\n};\n\n` +
        `const struct web_viewer web_viewer = {\n    .script = ${literal(script)},\n` +
        `    .style = ${literal(style)},\n    .script_hash = "${policyHash(script)}",\n` +
        `    .style_hash = "${policyHash(style)}",\n};\n\n` +
        `const struct web_asset web_assets[] = {\n${rows.join("")}    {0},\n};\n`
    );
}

/* ---- What to look at next time */

const CONFIGS = [
    "index.html",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
    "vite.config.ts",
    "vite.viewer.config.ts",
];

/** Folders, too: they change when files come and go. */
function writeDepfile() {
    const roots = ["src", "public"].map((name) => path.join(web, name));
    const all = [
        ...CONFIGS.map((name) => path.join(web, name)),
        ...roots,
        ...roots.flatMap(foldersBelow),
        ...roots.flatMap((root) => filesBelow(root).map((file) => path.join(root, file))),
    ].map((name) => name.replaceAll("$", "$$$$").replace(/([ #\\])/g, "\\$1"));
    fs.writeFileSync(depfile, `${output}: \\\n  ${all.join(" \\\n  ")}\n`);
}

writeDepfile(); // before reading: what changes meanwhile is seen the next time
installWhereMissing();
const pages = bundle("vite.config.ts", "VESTA_WEB_OUT");
const viewer = bundle("vite.viewer.config.ts", "VESTA_VIEWER_OUT");
fs.writeFileSync(output, source(pages, viewer));
