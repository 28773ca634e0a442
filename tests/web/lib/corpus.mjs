// Real profiles, where the corpus is there, and go tool pprof's word on them.

import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";

const CORPUS = process.env.VESTA_CORPUS ?? new URL("../../../../shared/corpus", import.meta.url).pathname;

export const noCorpus = existsSync(join(CORPUS, "MANIFEST.tsv")) ? undefined : `no corpus at ${CORPUS}`;
export const noPprof = noCorpus ?? (spawnSync("go", ["version"]).status === 0 ? undefined : "no go tool pprof");

export const corpusPath = (name) => join(CORPUS, name);
export const corpusFile = (name) => readFileSync(corpusPath(name));

export function pprof(...args) {
    const done = spawnSync("go", ["tool", "pprof", ...args], { encoding: "utf8", maxBuffer: 64 << 20 });
    if (done.status !== 0) throw new Error(`go tool pprof: ${done.stderr}`);
    return done.stdout;
}

const number = (text) => Number.parseFloat(text.replace(/[^-\d.e+]/g, ""));

/** Rows of -top: Map of name → {flat, cum}; values in the unit asked for. */
export function topRows(text) {
    const rows = new Map();
    for (const line of text.split("\n")) {
        const m = /^\s*(-?[\d.e+]+[a-zA-Z]*)\s+-?[\d.]+%\s+-?[\d.]+%\s+(-?[\d.e+]+[a-zA-Z]*)\s+-?[\d.]+%\s+(.*?)( \((partial-)?inline\))?$/.exec(line);
        if (m) rows.set(m[3], { flat: number(m[1]), cum: number(m[2]) });
    }
    return rows;
}

/** Of -peek for one function: callers and callees with the value of their edge. */
export function peekRows(text, name) {
    const callers = new Map(), callees = new Map();
    let block = [];
    for (const line of text.split("\n")) {
        if (!line.startsWith("-----")) {
            block.push(line);
            continue;
        }
        const at = block.findIndex((l) => /\| [^ ]/.test(l) && l.split("| ")[1].replace(/ \((partial-)?inline\)$/, "") === name);
        if (at >= 0)
            block.forEach((l, i) => {
                const m = /^\s+(-?[\d.e+]+[a-zA-Z]*)\s+[\d.]+% \|   (.*?)( \((partial-)?inline\))?$/.exec(l);
                if (m) (i < at ? callers : callees).set(m[2], number(m[1]));
            });
        block = [];
    }
    return { callers, callees };
}

/** "Showing nodes accounting for 460000000ns, 15.8% of ...": what passes the filter. */
export function accounted(text) {
    return number(/accounting for (-?[\d.e+]+)/.exec(text)[1]);
}
