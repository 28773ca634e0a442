// The resource: what is said, what platforms say, package.json, and .git as git itself writes it.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { Worker } from "node:worker_threads";
import { resolveConfig } from "../dist/esm/config.js";
import { buildResource } from "../dist/esm/metadata.js";
import { sdkVersion } from "../dist/esm/version.js";

const own = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));

function inFolder(t) {
    const folder = mkdtempSync(path.join(tmpdir(), "vesta-meta-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    return folder;
}

const resource = (folder, env = {}, options = {}) =>
    buildResource(resolveConfig(options, env), folder);

test("the version is that of the package", () => {
    assert.equal(sdkVersion, own.version);
});

test("process, runtime and SDK", (t) => {
    const r = resource(inFolder(t));
    assert.equal(r["process.runtime.name"], "nodejs");
    assert.equal(r["process.runtime.version"], process.versions.node);
    assert.equal(r["process.pid"], process.pid);
    assert.equal(r["telemetry.sdk.name"], "@vesta/node");
    assert.equal(r["telemetry.sdk.language"], "nodejs");
    assert.match(r["service.instance.id"], /^[0-9a-f-]{36}$/);
    assert.ok(r["host.name"]);
    assert.equal(r["service.name"], "unknown_service:node");
    assert.ok(!("service.version" in r));
});

test("the nearest package.json that is an app's", (t) => {
    const folder = inFolder(t);
    const build = path.join(folder, "dist", "cjs");
    mkdirSync(build, { recursive: true });
    writeFileSync(path.join(folder, "package.json"), '{"name": "shop", "version": "2.3.4"}');
    writeFileSync(path.join(folder, "dist", "package.json"), "not JSON");
    writeFileSync(path.join(build, "package.json"), '{"type": "commonjs"}');
    const r = resource(build);
    assert.equal(r["service.name"], "shop");
    assert.equal(r["service.version"], "2.3.4");
    const said = resource(build, {
        OTEL_RESOURCE_ATTRIBUTES: "service.name=attr,service.version=9",
    });
    assert.equal(said["service.name"], "attr");
    assert.equal(said["service.version"], "9");
    const named = resource(build, {
        OTEL_RESOURCE_ATTRIBUTES: "service.name=attr",
        OTEL_SERVICE_NAME: "env",
    });
    assert.equal(named["service.name"], "env");
    const given = { resourceAttributes: { "service.name": "option" } };
    const env = { OTEL_SERVICE_NAME: "env", VESTA_SERVICE_NAME: "ours" };
    assert.equal(resource(build, env, given)["service.name"], "option");
    const both = { ...given, serviceName: "own" };
    assert.equal(resource(build, env, both)["service.name"], "own");
});

test("what platforms say", (t) => {
    const folder = inFolder(t);
    const r = resource(folder, {
        GITHUB_SHA: "b".repeat(40),
        VESTA_GIT_COMMIT: "c".repeat(40),
        CI_COMMIT_REF_NAME: "main",
        NODE_ENV: "production",
        VESTA_DEPLOYMENT_ID: "d-1",
    });
    assert.equal(r["vcs.ref.head.revision"], "c".repeat(40));
    assert.equal(r["vcs.ref.head.name"], "main");
    assert.equal(r["deployment.environment.name"], "production");
    assert.equal(r["deployment.id"], "d-1");
    const said = resource(
        folder,
        { NODE_ENV: "production", GIT_COMMIT: "x" },
        {
            resourceAttributes: {
                "deployment.environment.name": "canary",
                "vcs.ref.head.revision": "y",
            },
        },
    );
    assert.equal(said["deployment.environment.name"], "canary");
    assert.equal(said["vcs.ref.head.revision"], "y");
});

function git(folder, ...args) {
    const quiet = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"];
    const env = {
        PATH: process.env.PATH,
        GIT_CONFIG_GLOBAL: "/dev/null",
        GIT_CONFIG_NOSYSTEM: "1",
    };
    return execFileSync("git", [...quiet, ...args], { cwd: folder, encoding: "utf8", env }).trim();
}

function hasGit() {
    try {
        execFileSync("git", ["--version"]);
        return true;
    } catch {
        return false;
    }
}

const head = (folder) => {
    const r = resource(folder);
    return [r["vcs.ref.head.revision"], r["vcs.ref.head.name"]];
};

test(".git: loose and packed references, detached, worktrees", { skip: !hasGit() }, (t) => {
    const folder = inFolder(t);
    const main = path.join(folder, "main");
    mkdirSync(path.join(main, "src", "deep"), { recursive: true });
    git(main, "init", "-q");
    assert.deepEqual(head(main), [undefined, "main"], "no commit yet");
    git(main, "commit", "-q", "--allow-empty", "-m", "one");
    const one = git(main, "rev-parse", "HEAD");
    assert.deepEqual(head(path.join(main, "src", "deep")), [one, "main"]);
    git(main, "checkout", "-q", "-b", "topic/x");
    git(main, "commit", "-q", "--allow-empty", "-m", "two");
    const two = git(main, "rev-parse", "HEAD");
    git(main, "pack-refs", "--all");
    assert.deepEqual(head(main), [two, "topic/x"], "packed");
    git(main, "worktree", "add", "-q", "-b", "side", path.join(folder, "side"), one);
    assert.deepEqual(head(path.join(folder, "side")), [one, "side"], "worktree");
    git(main, "checkout", "-q", "--detach");
    assert.deepEqual(head(main), [two, undefined], "detached");
    writeFileSync(path.join(main, ".git", "HEAD"), "ref: refs/../../secret\n");
    assert.deepEqual(head(main), [undefined, undefined], "no way out of .git");
});

test("all threads of a process are one instance", async (t) => {
    const expected = resource(inFolder(t))["service.instance.id"];
    const source = `
        const { parentPort } = require("node:worker_threads");
        const { resolveConfig } = require(${JSON.stringify(cjs("config.js"))});
        const { buildResource } = require(${JSON.stringify(cjs("metadata.js"))});
        parentPort.postMessage(buildResource(resolveConfig({}, {}))["service.instance.id"]);`;
    const worker = new Worker(source, { eval: true });
    const seen = await new Promise((resolve, reject) => {
        worker.once("message", resolve);
        worker.once("error", reject);
    });
    assert.equal(seen, expected);
});

function cjs(name) {
    return new URL(`../dist/cjs/${name}`, import.meta.url).pathname;
}
