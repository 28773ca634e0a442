// Who is being profiled: the resource that goes with every profile. Read once at the start, from the
// environment, package.json and .git, by files alone: no process is started.
import { readFileSync } from "node:fs";
import { hostname } from "node:os";
import * as path from "node:path";
import type { Config, Environment } from "./config.js";
import { findGit } from "./metadata_git.js";
import type { Resource } from "./model.js";
import { sdkName, sdkVersion } from "./version.js";
import { instanceId } from "./workers.js";

interface Package {
    name?: string;
    version?: string;
    gitHead?: string; // as npm writes it on publishing
}

/** Where the app is: the folder of its main module, else where it was started. */
export function appFolder(): string {
    const main = process.argv[1];
    return main ? path.dirname(path.resolve(main)) : process.cwd();
}

export function buildResource(config: Config, folder: string = appFolder()): Resource {
    const own = findPackage(folder);
    const said = config.resourceAttributes;
    const resource: Resource = {
        "process.runtime.name": "nodejs",
        "process.runtime.version": process.versions.node,
        "process.pid": process.pid,
        "host.name": hostname(),
        "telemetry.sdk.name": sdkName,
        "telemetry.sdk.language": "nodejs",
        "telemetry.sdk.version": sdkVersion,
        "service.instance.id": instanceId(),
    };
    set(resource, "service.version", own?.version);
    setGit(resource, config.env, own, said, folder);
    set(resource, "deployment.environment.name", first(config.env, environments));
    set(resource, "deployment.id", first(config.env, deployments));
    Object.assign(resource, said);
    if (config.serviceName !== "" || !resource["service.name"]) {
        resource["service.name"] = config.serviceName || own?.name || "unknown_service:node";
    }
    return resource;
}

function set(resource: Resource, key: string, value: string | undefined): void {
    if (value) {
        resource[key] = value;
    }
}

// ---- Variables that platforms and build systems set

const commits = [
    "VESTA_GIT_COMMIT",
    "GIT_COMMIT",
    "GIT_COMMIT_SHA",
    "COMMIT_SHA",
    "GITHUB_SHA",
    "CI_COMMIT_SHA",
    "SOURCE_VERSION",
    "SOURCE_COMMIT",
    "HEROKU_SLUG_COMMIT",
    "HEROKU_BUILD_COMMIT",
    "VERCEL_GIT_COMMIT_SHA",
    "RENDER_GIT_COMMIT",
    "RAILWAY_GIT_COMMIT_SHA",
    "CIRCLE_SHA1",
    "BITBUCKET_COMMIT",
    "BUILDKITE_COMMIT",
    "TRAVIS_COMMIT",
    "DRONE_COMMIT_SHA",
    "BUILD_SOURCEVERSION",
];
const branches = [
    "VESTA_GIT_BRANCH",
    "GIT_BRANCH",
    "GITHUB_HEAD_REF",
    "GITHUB_REF_NAME",
    "CI_COMMIT_REF_NAME",
    "BRANCH_NAME",
    "VERCEL_GIT_COMMIT_REF",
    "RENDER_GIT_BRANCH",
    "RAILWAY_GIT_BRANCH",
    "CIRCLE_BRANCH",
    "BITBUCKET_BRANCH",
    "BUILDKITE_BRANCH",
    "TRAVIS_BRANCH",
    "DRONE_BRANCH",
    "BUILD_SOURCEBRANCHNAME",
];
const environments = ["VESTA_DEPLOYMENT_ENVIRONMENT", "DEPLOYMENT_ENVIRONMENT", "NODE_ENV"];
const deployments = [
    "VESTA_DEPLOYMENT_ID",
    "DEPLOYMENT_ID",
    "VERCEL_DEPLOYMENT_ID",
    "RAILWAY_DEPLOYMENT_ID",
    "HEROKU_RELEASE_VERSION",
    "K_REVISION",
];

function first(env: Environment, names: string[]): string | undefined {
    const name = names.find((n) => env[n]?.trim());
    return name && env[name]?.trim();
}

/** What was said goes first; .git is only looked for when something is not known. */
function setGit(
    resource: Resource,
    env: Environment,
    own: Package | undefined,
    said: Resource,
    folder: string,
): void {
    let commit = first(env, commits) ?? own?.gitHead;
    let branch = first(env, branches);
    const isSaid = "vcs.ref.head.revision" in said;
    if (!isSaid && !commit) {
        const git = findGit(folder);
        commit = git?.commit;
        branch ??= git?.branch;
    }
    set(resource, "vcs.ref.head.revision", commit);
    set(resource, "vcs.ref.head.name", branch);
}

// ---- Files

function findPackage(folder: string): Package | undefined {
    for (let at = folder; ; at = path.dirname(at)) {
        const found = readPackage(path.join(at, "package.json"));
        if (found || at === path.dirname(at)) {
            return found;
        }
    }
}

/** Those that only say {"type": "module"}, as in folders of builds, are no app's. */
function readPackage(file: string): Package | undefined {
    try {
        const json: unknown = JSON.parse(readFileSync(file, "utf8"));
        const { name, version, gitHead } = (json ?? {}) as Record<string, unknown>;
        if (typeof name !== "string" && typeof version !== "string") {
            return undefined;
        }
        return { name: text(name), version: text(version), gitHead: text(gitHead) };
    } catch {
        return undefined;
    }
}

function text(value: unknown): string | undefined {
    return typeof value === "string" && value !== "" ? value : undefined;
}
