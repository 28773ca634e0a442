// The real server with a data folder of its own, on a port of its own.

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const BUILD = process.env.VESTA_BUILD ?? new URL("../../../build", import.meta.url).pathname;
export const VESTA = join(BUILD, "vesta");

export function freePort() {
    return new Promise((done) => {
        const s = createServer().listen(0, "127.0.0.1", () => {
            const { port } = s.address();
            s.close(() => done(port));
        });
    });
}

process.setMaxListeners(50);

export class Server {
    static async start(...args) {
        const s = new Server();
        s.data = mkdtempSync(join(tmpdir(), "vesta-web-"));
        s.args = args;
        s.port = await freePort();
        s.url = `http://127.0.0.1:${s.port}`;
        await s.run();
        return s;
    }

    /** Also after stop(): the same data on the same port. */
    async run() {
        this.child = spawn(VESTA, ["server", "--data", this.data, "--listen", `127.0.0.1:${this.port}`,
            "--listen-otlp-grpc", "", "--listen-otlp-http", "", "--log-level", "error", ...this.args],
            { stdio: ["ignore", "ignore", "inherit"] });
        if (!this.isWatched) process.once("exit", () => this.child?.kill("SIGKILL")); // whatever becomes of us
        this.isWatched = true;
        for (let i = 0; i < 200; i++) {
            try {
                if ((await fetch(`${this.url}/readyz`)).ok) return;
            } catch {
                // Not yet.
            }
            await new Promise((r) => setTimeout(r, 50));
        }
        throw new Error("the server did not become ready");
    }

    async stop() {
        if (!this.child) return;
        const gone = new Promise((r) => this.child.once("exit", r));
        this.child.kill("SIGKILL");
        await gone;
        this.child = null;
    }

    async end() {
        await this.stop();
        rmSync(this.data, { recursive: true, force: true });
    }

    /** Stores a profile; labels as the server takes them. */
    async push(bytes, labels, more = {}) {
        const q = new URLSearchParams({ ...labels, ...more });
        const headers = this.token ? { authorization: `Bearer ${this.token}` } : {};
        const r = await fetch(`${this.url}/api/v1/profiles?${q}`, { method: "POST", body: bytes, headers });
        if (!r.ok) throw new Error(`push: ${r.status} ${await r.text()}`);
        return r.json();
    }

    async api(route, params = {}, how = {}) {
        const r = await fetch(`${this.url}/api/v1/${route}?${new URLSearchParams(params)}`, how);
        return { status: r.status, body: await r.json() };
    }
}

export function vesta(...args) {
    const done = spawnSync(VESTA, args, { encoding: "utf8", maxBuffer: 64 << 20 });
    if (done.status !== 0 && done.status !== 3) throw new Error(`vesta ${args.join(" ")}: ${done.stderr}`);
    return done.stdout;
}
