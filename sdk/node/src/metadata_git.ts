// The commit and branch of a checkout, read from its files as git writes them: HEAD, loose and packed
// references, worktrees and submodules.
import { readFileSync, statSync } from "node:fs";
import * as path from "node:path";

export interface GitHead {
    commit?: string;
    branch?: string;
}

const idPattern = /^[0-9a-f]{40}([0-9a-f]{24})?$/;

/** Looks in the folder and above it. */
export function findGit(folder: string): GitHead | undefined {
    for (let at = folder; ; at = path.dirname(at)) {
        const git = gitFolder(at);
        if (git) {
            return readHead(git);
        }
        if (at === path.dirname(at)) {
            return undefined;
        }
    }
}

/** .git is a folder, or in worktrees and submodules a file that names one. */
function gitFolder(folder: string): string | undefined {
    const git = path.join(folder, ".git");
    try {
        if (statSync(git).isDirectory()) {
            return git;
        }
    } catch {
        return undefined;
    }
    const link = /^gitdir: (.+)$/m.exec(read(git))?.[1];
    return link ? path.resolve(folder, link.trim()) : undefined;
}

function readHead(git: string): GitHead | undefined {
    const head = read(path.join(git, "HEAD")).trim();
    const reference = /^ref: (refs\/.+)$/.exec(head)?.[1];
    if (!reference || reference.split("/").includes("..")) {
        return idPattern.test(head) ? { commit: head } : undefined;
    }
    return {
        commit: commitOf(git, reference),
        branch: reference.startsWith("refs/heads/") ? reference.slice(11) : reference,
    };
}

/** A worktree has its own HEAD, and the references of the repository it belongs to. */
function commitOf(git: string, reference: string): string | undefined {
    const common = read(path.join(git, "commondir")).trim();
    for (const place of common ? [git, path.resolve(git, common)] : [git]) {
        const loose = read(path.join(place, reference)).trim();
        if (idPattern.test(loose)) {
            return loose;
        }
        for (const line of read(path.join(place, "packed-refs")).split("\n")) {
            const [id, name] = line.trim().split(" ");
            if (name === reference && id && idPattern.test(id)) {
                return id;
            }
        }
    }
    return undefined;
}

function read(file: string): string {
    try {
        return readFileSync(file, "utf8");
    } catch {
        return "";
    }
}
