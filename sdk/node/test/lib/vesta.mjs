// A real server: the program at VESTA_BUILD (a folder), or of the build beside the sources.
import { execFile, spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const beside = fileURLToPath(new URL("../../../../build", import.meta.url));
export const program = path.join(process.env.VESTA_BUILD ?? beside, "vesta");
export const noProgram = existsSync(program) ? false : `there is no ${program}`;

/** Ends with the test. `url` answers questions, `otlp` takes OTLP. */
export async function startServer(t, ...args) {
    const data = mkdtempSync(path.join(tmpdir(), "vesta-sdk-"));
    const anyPort = "127.0.0.1:0";
    const listen = [
        "--listen",
        anyPort,
        "--listen-otlp-grpc",
        "off",
        "--listen-otlp-http",
        anyPort,
    ];
    const server = spawn(program, ["server", "--data", data, ...listen, ...args], {
        stdio: ["ignore", "pipe", "pipe"],
    });
    let log = "";
    server.stderr.on("data", (part) => {
        log += part;
    });
    const ended = new Promise((resolve) => server.once("close", resolve));
    t.after(async () => {
        server.kill();
        await ended;
        rmSync(data, { recursive: true, force: true });
    });
    const urls = [];
    for await (const line of createInterface({ input: server.stdout })) {
        if (urls.push(line.trim()) === 2) {
            break;
        }
    }
    if (urls.length < 2) {
        throw new Error(`the server did not start: ${log}`);
    }
    const [url, otlp] = urls;
    return { url, otlp, ask: (question, parameters) => ask(url, question, parameters) };
}

async function ask(url, question, parameters = {}) {
    const query = new URLSearchParams({ from: "now-1h", until: "now+1h", ...parameters });
    const answer = await fetch(`${url}/api/v1/${question}?${query}`);
    const text = await answer.text();
    if (!answer.ok) {
        throw new Error(`${question}: ${answer.status} ${text}`);
    }
    return JSON.parse(text);
}

export function runProgram(...args) {
    return new Promise((resolve, reject) => {
        execFile(program, args, (error, stdout, stderr) =>
            error ? reject(new Error(`${error.message}\n${stderr}`)) : resolve(stdout),
        );
    });
}
