// One POST: by node:http, with a connection that is kept, and that does not keep the process alive. Only
// while it is being made does it, whatever we say (libuv counts connects and look-ups of names), so
// there is little time for that.
import * as http from "node:http";
import * as https from "node:https";
import type { Socket } from "node:net";
import type { OtlpConfig } from "./config_otlp.js";
import { wordsOf } from "./stats.js";
import { withoutTracing } from "./suppress.js";

export interface Answer {
    /** 0: there was none. */
    status: number;
    /** Why there was none. */
    problem: string;
    contentType: string;
    /** As it was sent. */
    retryAfter: string;
    body: Buffer;
    /** A kept connection was closed while we wrote to it: worth another try at once. */
    wasStale: boolean;
}

export interface Poster {
    post(body: Buffer, headers: Record<string, string>): Promise<Answer>;
    /** Ends a request that is under way. */
    abort(): void;
    close(): void;
}

const answerMax = 64 << 10;

export function createPoster(config: OtlpConfig): Poster {
    const url = new URL(config.url);
    const module = url.protocol === "https:" ? https : http;
    const tls = { ca: config.ca, key: config.clientKey, cert: config.clientCertificate };
    const agent = new module.Agent({
        keepAlive: true,
        maxSockets: 1,
        ...(url.protocol === "https:" ? tls : {}),
    });
    let current: http.ClientRequest | undefined;

    function post(body: Buffer, headers: Record<string, string>): Promise<Answer> {
        return new Promise((resolve) => {
            const request = module.request(url, {
                method: "POST",
                agent,
                headers: { ...headers, "content-length": body.length },
            });
            const patience = setTimeout(() => {
                request.destroy(new Error(`no answer within ${config.timeoutMillis} ms`));
            }, config.timeoutMillis);
            const done = (answer: Partial<Answer>): void => {
                clearTimeout(patience);
                current = undefined;
                resolve({ ...noAnswer, ...answer });
            };
            patience.unref();
            current = request;
            request.on("socket", (socket) => {
                socket.unref();
                if (socket.connecting) limitConnect(request, socket, config.connectMillis);
            });
            request.on("response", (response) => readAnswer(response, done));
            request.on("error", (error: NodeJS.ErrnoException) => {
                const wasStale = request.reusedSocket && error.code === "ECONNRESET";
                done({ problem: wordsOf(error), wasStale });
            });
            request.end(body);
        });
    }
    return {
        // What cannot be asked at all (a header that Node refuses) has no answer either.
        post: (body, headers) =>
            withoutTracing(() => post(body, headers)).catch((error: unknown) => ({
                ...noAnswer,
                problem: wordsOf(error),
            })),
        abort: () => current?.destroy(new Error("given up")),
        close: () => agent.destroy(),
    };
}

function limitConnect(request: http.ClientRequest, socket: Socket, millis: number): void {
    const patience = setTimeout(() => {
        request.destroy(new Error(`no connection within ${millis} ms`));
    }, millis);
    patience.unref();
    socket.once("connect", () => clearTimeout(patience));
    socket.once("close", () => clearTimeout(patience));
}

const noAnswer: Answer = {
    status: 0,
    problem: "",
    contentType: "",
    retryAfter: "",
    body: Buffer.alloc(0),
    wasStale: false,
};

/** The status counts, also when the rest of the answer does not come. */
function readAnswer(response: http.IncomingMessage, done: (answer: Partial<Answer>) => void): void {
    const parts: Buffer[] = [];
    let length = 0;
    response.on("data", (part: Buffer) => {
        length += part.length;
        if (length <= answerMax) {
            parts.push(part);
        } else if (length > 16 * answerMax) {
            response.destroy();
        }
    });
    response.on("error", () => {}); // "close" follows
    response.on("close", () => {
        done({
            status: response.statusCode ?? 0,
            contentType: response.headers["content-type"] ?? "",
            retryAfter: response.headers["retry-after"] ?? "",
            body: Buffer.concat(parts),
        });
    });
}
