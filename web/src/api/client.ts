// Asking the server: one way to send a question, one kind of error, the token in one place.

import { signal } from "@preact/signals";

export class ApiError extends Error {
    constructor(
        message: string,
        readonly status: number, // 0: the server could not be reached
        readonly code: string,
        readonly retryAfter = 0, // seconds
    ) {
        super(message);
    }
}

export type Params = Record<string, string | number | boolean | readonly string[] | undefined>;

/** What the server wrote into the page. */
export interface Boot {
    version?: string;
    tenant?: string;
    needs_token?: boolean;
    external_url?: string;
    grpc_port?: number;
    http_port?: number;
}

export const boot: Boot = readBoot();

function readBoot(): Boot {
    const text =
        typeof document === "undefined" ? null : document.getElementById("boot")?.textContent;
    try {
        return text ? (JSON.parse(text) as Boot) : {};
    } catch {
        return {};
    }
}

const TOKEN_KEY = "vesta.token";

function storedToken(): string {
    try {
        return localStorage.getItem(TOKEN_KEY) ?? "";
    } catch {
        return ""; // storage may be forbidden
    }
}

export const token = signal(storedToken());

/** True while the server refuses what we have: the login is shown. */
export const needsLogin = signal(boot.needs_token === true && token.value === "");

export function setToken(value: string) {
    token.value = value;
    needsLogin.value = boot.needs_token === true && value === "";
    try {
        if (value) localStorage.setItem(TOKEN_KEY, value);
        else localStorage.removeItem(TOKEN_KEY);
    } catch {
        // It lives as long as the page then.
    }
}

/** Where the pages live: "/" or the path of a reverse proxy. */
export function basePath(): string {
    return typeof document === "undefined" ? "/" : new URL(document.baseURI).pathname;
}

export function apiUrl(route: string, params: Params = {}): string {
    const p = new URLSearchParams();
    for (const [name, value] of Object.entries(params)) {
        if (value === undefined || value === "" || value === false) continue;
        if (Array.isArray(value)) for (const one of value) p.append(name, one);
        else p.append(name, value === true ? "1" : String(value));
    }
    const query = p.toString();
    return `${basePath()}api/v1/${route}${query ? `?${query}` : ""}`;
}

async function errorOf(r: Response): Promise<ApiError> {
    let text = `${r.status} ${r.statusText}`;
    let code = "";
    try {
        const body = (await r.json()) as { error?: string; why?: string; code?: string };
        text = body.error ?? body.why ?? text;
        code = body.code ?? "";
    } catch {
        // Not ours: a proxy's page.
    }
    return new ApiError(text, r.status, code, Number(r.headers.get("retry-after")) || 0);
}

export interface Asking {
    method?: string;
    body?: BodyInit;
    accept?: string;
    signal?: AbortSignal;
}

let skew = 0;

/** What the server's clock says: the browser's may be wrong, and data is found by the server's. */
export function serverNow(): number {
    return Date.now() + skew;
}

function learnClock(r: Response) {
    const then = Date.parse(r.headers.get("date") ?? "");
    // The header has whole seconds; small differences are not worth a moving clock.
    if (!Number.isNaN(then)) skew = Math.abs(then - Date.now()) > 2500 ? then - Date.now() : 0;
}

/** The answer, whatever it is; an ApiError otherwise. Aborting throws as fetch() does. */
export async function send(url: string, how: Asking = {}): Promise<Response> {
    const headers: Record<string, string> = {};
    if (token.value) headers.authorization = `Bearer ${token.value}`;
    if (how.accept) headers.accept = how.accept;
    if (typeof how.body === "string") headers["content-type"] = "application/json";
    let r: Response;
    try {
        r = await fetch(url, { method: how.method, body: how.body, headers, signal: how.signal });
    } catch (e) {
        if (how.signal?.aborted) throw e;
        throw new ApiError(
            "The server does not answer. Is it running, and can this machine reach it?",
            0,
            "unreachable",
        );
    }
    learnClock(r);
    if (r.ok) return r;
    if (r.status === 401) needsLogin.value = true;
    throw await errorOf(r);
}

export async function getJson<T>(route: string, params?: Params, how?: Asking): Promise<T> {
    return (await (await send(apiUrl(route, params), how)).json()) as T;
}

export async function getBytes(route: string, params?: Params, how?: Asking): Promise<ArrayBuffer> {
    return (await send(apiUrl(route, params), how)).arrayBuffer();
}

/** POST, PUT or DELETE of JSON. */
export async function change<T>(method: string, route: string, body?: unknown): Promise<T> {
    const r = await send(apiUrl(route), {
        method,
        body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await r.text();
    return (text ? JSON.parse(text) : {}) as T;
}
