// V8's profilers, spoken to through one inspector session per thread. Every profiler takes the
// session and gives it back; with the last one it is closed. Nothing listens on any port.
import { createRequire } from "node:module";
import type * as Inspector from "node:inspector";
import { forgetInThread, onceInThread } from "./workers.js";

type Session = Inspector.Session;

export interface V8 {
    /** Answers at once: session and profilers are in the same thread. Throws what V8 refuses. */
    post<T>(method: string, params?: object): T;
    /** For what is answered later. Only a timer that lets the process end waits for it. */
    ask(method: string, params: object, timeoutMillis: number): Promise<void>;
    /** Gives back the way to stop listening. */
    on(event: string, listener: (params: unknown) => void): () => void;
    /** Turns a domain on for as long as somebody uses it. Gives back the way to turn it off. */
    use(domain: "Profiler" | "HeapProfiler"): () => void;
    release(): void;
}

interface Shared {
    session: Session;
    users: number;
    domains: Map<string, number>;
}

const key = "session";

/** Throws where there is none: a Node built without it. So it is loaded by those who need it, and not
 * with this file: the app would not start else. */
export function inspector(): typeof Inspector {
    return createRequire(process.execPath)("node:inspector") as typeof Inspector;
}

function connect(): Shared {
    const { Session } = inspector();
    const session = new Session();
    session.connect();
    session.on("error", () => {});
    return { session, users: 0, domains: new Map() };
}

/** Throws where there is no inspector, or where it is forbidden. */
export function openV8(): V8 {
    return userOf(onceInThread(key, connect), () => forgetInThread(key));
}

/** A session that nobody shares. */
export function openOwnV8(): V8 {
    return userOf(connect(), () => {});
}

function userOf(shared: Shared, forget: () => void): V8 {
    shared.users++;
    const post = postOf(shared.session);
    let open = true;
    return {
        post,
        ask: askOf(shared.session),
        on(event, listener) {
            const unwrap = (message: { params: unknown }) => listener(message.params);
            shared.session.on(event, unwrap);
            return () => void shared.session.off(event, unwrap);
        },
        use: (domain) => useDomain(shared, domain, post),
        release() {
            if (!open) return;
            open = false;
            if (--shared.users === 0) {
                forget();
                shared.session.disconnect();
            }
        },
    };
}

/** For tests and for the curious. */
export function isSessionOpen(): boolean {
    return Symbol.for(`vesta.node.${key}`) in globalThis;
}

function postOf(session: Session): V8["post"] {
    return <T>(method: string, params?: object): T => {
        let answer: { result?: T; error?: unknown } | undefined;
        session.post(method, params, (error: unknown, result: unknown) => {
            answer = error ? { error } : { result: result as T };
        });
        if (!answer) throw new Error(`${method} was not answered`);
        if (answer.error) throw new Error(`${method} was refused: ${messageOf(answer.error)}`);
        return answer.result as T;
    };
}

function askOf(session: Session): V8["ask"] {
    return (method, params, timeoutMillis) =>
        new Promise((resolve, reject) => {
            const refuse = (why: string): void => reject(new Error(`${method} ${why}`));
            const timer = setTimeout(refuse, timeoutMillis, "was not answered in time");
            timer.unref();
            session.post(method, params, (error: unknown) => {
                clearTimeout(timer);
                if (error) refuse(`was refused: ${messageOf(error)}`);
                else resolve();
            });
        });
}

function messageOf(error: unknown): string {
    const { message } = error as { message?: unknown };
    return typeof message === "string" ? message : JSON.stringify(error);
}

function useDomain(shared: Shared, domain: string, post: V8["post"]): () => void {
    const users = shared.domains.get(domain) ?? 0;
    if (users === 0) post(`${domain}.enable`);
    shared.domains.set(domain, users + 1);
    return () => {
        const left = (shared.domains.get(domain) ?? 1) - 1;
        shared.domains.set(domain, left);
        if (left === 0) post(`${domain}.disable`);
    };
}
