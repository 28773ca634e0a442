// Sends batches by OTLP/HTTP. What cannot be sent now waits in a buffer of so many bytes, is tried
// again as OTLP says, and the oldest is dropped when more comes than there is room for.
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { OtlpConfig } from "./config_otlp.js";
import { writeOtlp } from "./encode_otlp.js";
import { writeOtlpJson } from "./encode_otlp_json.js";
import { type Answer, createPoster } from "./http_post.js";
import type { Batch, Exporter } from "./model.js";
import { readErrorMessage, readPartialSuccess } from "./otlp_response.js";
import { buildOtlp } from "./otlp_tables.js";
import type { StatsKeeper } from "./stats.js";
import { sdkVersion } from "./version.js";

const compress = promisify(gzip);

/** A large batch takes milliseconds: the app's turns come in between. */
const letOthersRun = promisify(setImmediate);

interface Waiting {
    body: Buffer;
    since: number;
}

type Verdict =
    | { kind: "sent" }
    | { kind: "refused"; why: string }
    | { kind: "again"; why: string; afterMillis: number | undefined; wasAnswered: boolean };

export function createOtlpExporter(
    config: OtlpConfig,
    isJson: boolean,
    stats: StatsKeeper,
): Exporter {
    const queue = createQueue(config, stats);
    const sender = createSender(config, isJson, queue, stats);
    const encoding = new Set<Promise<void>>();
    let isStopped = false;

    async function encode(batch: Batch): Promise<void> {
        await letOthersRun();
        const message = stats.timed(() => buildOtlp(batch));
        await letOthersRun();
        const raw = stats.timed(() => (isJson ? writeOtlpJson(message) : writeOtlp(message)));
        // A copy has no more memory behind it than it needs.
        queue.add(config.compression === "gzip" ? await compress(raw) : Buffer.from(raw));
        sender.wake();
    }
    return {
        async export(batch) {
            if (isStopped) {
                stats.drop("stopped");
                return;
            }
            const work = encode(batch).catch((error: unknown) => {
                stats.drop("refused");
                stats.error("encoding a batch", error);
            });
            encoding.add(work);
            await work;
            encoding.delete(work);
        },
        async shutdown(timeoutMillis) {
            isStopped = true;
            await sender.finish(Promise.all(encoding), timeoutMillis);
        },
    };
}

// ---- What waits

interface Queue {
    items: Waiting[];
    add(body: Buffer): void;
    /** The first one has been sent, or never will be. */
    shift(): void;
    /** Its first item is under way: it is not dropped. */
    isSending: boolean;
}

function createQueue(config: OtlpConfig, stats: StatsKeeper): Queue {
    let bytes = 0;
    const drop = (at: number): void => {
        bytes -= queue.items.splice(at, 1)[0]?.body.length ?? 0;
    };
    const queue: Queue = {
        items: [],
        isSending: false,
        shift: () => drop(0),
        add(body) {
            queue.items.push({ body, since: performance.now() });
            bytes += body.length;
            while (bytes > config.bufferBytes) {
                drop(queue.isSending && queue.items.length > 1 ? 1 : 0);
                stats.drop("buffer");
                stats.log.info("the buffer is full: the oldest batch was dropped");
            }
        },
    };
    return queue;
}

// ---- Sending

interface Sender {
    wake(): void;
    /** Sends all there is, at most for this long. */
    finish(before: Promise<unknown>, timeoutMillis: number): Promise<void>;
}

function createSender(
    config: OtlpConfig,
    isJson: boolean,
    queue: Queue,
    stats: StatsKeeper,
): Sender {
    const poster = createPoster(config);
    const headers = headersOf(config, isJson);
    let failures = 0; // in a row
    let running: Promise<void> | undefined;
    let endNap: (() => void) | undefined;
    let deadline: number | undefined; // once it is to finish
    let isClosed = false;

    const nap = (millis: number): Promise<void> =>
        new Promise((resolve) => {
            const timer = setTimeout(resolve, millis).unref();
            endNap = () => {
                clearTimeout(timer);
                resolve();
            };
        });
    const giveUp = (): void => {
        for (; queue.items.length > 0; queue.shift()) {
            stats.drop("timeout");
        }
    };

    async function sendFirst(first: Waiting): Promise<Verdict> {
        let answer = await poster.post(first.body, headers);
        if (answer.wasStale) {
            answer = await poster.post(first.body, headers);
        }
        return judge(answer, isJson, stats);
    }
    /** Waits before the next attempt. False: there is no time for one, or, at the end, nobody there. */
    async function pause(verdict: Extract<Verdict, { kind: "again" }>): Promise<boolean> {
        const millis = Math.max(verdict.afterMillis ?? 0, backoff(config, failures));
        stats.error("export", verdict.why);
        if (
            deadline !== undefined &&
            !(verdict.wasAnswered && performance.now() + millis < deadline)
        ) {
            return false;
        }
        stats.retried();
        await nap(millis);
        return true;
    }
    async function run(): Promise<void> {
        for (let first = queue.items[0]; first; first = queue.items[0]) {
            if (performance.now() - first.since > config.maxAgeMillis) {
                queue.shift();
                stats.drop("timeout");
                continue;
            }
            queue.isSending = true;
            const verdict = await sendFirst(first);
            queue.isSending = false;
            if (verdict.kind === "again") {
                failures++;
                if (!(await pause(verdict))) {
                    return giveUp();
                }
                continue;
            }
            failures = 0;
            queue.shift();
            if (verdict.kind === "sent") {
                stats.exported(first.body.length);
            } else {
                stats.drop("refused");
                stats.error("export", verdict.why);
            }
        }
    }
    const wake = (): void => {
        if (isClosed) {
            giveUp();
            return;
        }
        running ??= run()
            .catch((error: unknown) => stats.error("export", error))
            .finally(() => {
                running = undefined;
            });
    };
    return {
        wake,
        async finish(before, timeoutMillis) {
            deadline = performance.now() + timeoutMillis;
            endNap?.(); // the last chance is now
            let timer: NodeJS.Timeout | undefined;
            const late = new Promise<void>((resolve) => {
                timer = setTimeout(resolve, timeoutMillis); // keeps the process until then
            });
            await Promise.race([before.then(() => running), late]);
            clearTimeout(timer);
            isClosed = true;
            if (queue.items.length > 0) {
                giveUp();
                poster.abort();
            }
            poster.close();
        },
    };
}

function headersOf(config: OtlpConfig, isJson: boolean): Record<string, string> {
    return {
        "user-agent": `vesta-node/${sdkVersion}`,
        ...config.headers,
        "content-type": isJson ? "application/json" : "application/x-protobuf",
        ...(config.compression === "gzip" ? { "content-encoding": "gzip" } : {}),
    };
}

// ---- Answers

const retryable = new Set([429, 502, 503, 504]);

function judge(answer: Answer, isJson: boolean, stats: StatsKeeper): Verdict {
    const { status } = answer;
    if (status === 0) {
        return { kind: "again", why: answer.problem, afterMillis: undefined, wasAnswered: false };
    }
    if (status >= 200 && status < 300) {
        const partial = readPartialSuccess(answer.body, isJson);
        if (partial) {
            stats.drop("rejected_profiles", partial.rejected);
            const told = partial.message === "" ? "" : `: ${partial.message}`;
            stats.error("export", `${partial.rejected} profiles were not taken${told}`);
        }
        return { kind: "sent" };
    }
    const message = readErrorMessage(answer.body, answer.contentType);
    const why = `status ${status}${message === "" ? "" : `: ${message}`}`;
    return retryable.has(status)
        ? { kind: "again", why, afterMillis: retryAfter(answer.retryAfter), wasAnswered: true }
        : { kind: "refused", why };
}

const retryAfterMax = 600_000;

/** Seconds or a date. */
export function retryAfter(text: string, now: number = Date.now()): number | undefined {
    const value = text.trim();
    const millis = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - now;
    return value === "" || Number.isNaN(millis)
        ? undefined
        : Math.min(Math.max(millis, 0), retryAfterMax);
}

/** Doubles, and is somewhere in its upper half, so that many processes do not come at once. */
function backoff(config: OtlpConfig, failures: number): number {
    const full = Math.min(config.retryMillis * 2 ** (failures - 1), config.retryMaxMillis);
    return full * (0.5 + Math.random() / 2);
}
