// An answer that a component waits for. The last answer stays while the next is on its way, so that
// pictures are dimmed and not torn down; what has been asked before is there at once.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError, needsLogin, token } from "../api/client";

export interface Query<T> {
    data: T | undefined;
    error: ApiError | null;
    isLoading: boolean;
    isOld: boolean; // data is of the question before
    retry: () => void;
}

interface Kept {
    value: unknown;
    at: number;
}

const kept = new Map<string, Kept>();
const KEPT_MAX = 40;
const KEPT_MS = 30_000;
const LARGEST = 8 << 20; // bytes: more is asked for again
const NODE_BYTES = 48; // of a decoded tree
let keptFor = token.peek();

/** What is kept; nothing that another token was answered. */
function keptNow(): Map<string, Kept> {
    if (keptFor !== token.peek()) kept.clear();
    keptFor = token.peek();
    return kept;
}

function isLarge(value: unknown): boolean {
    if (value instanceof ArrayBuffer) return value.byteLength > LARGEST;
    const tree = value as { n?: unknown; parent?: unknown } | null | undefined;
    return tree?.parent instanceof Uint32Array && Number(tree.n) * NODE_BYTES > LARGEST;
}

function keep(key: string, value: unknown) {
    const all = keptNow();
    all.delete(key);
    if (!isLarge(value)) all.set(key, { value, at: Date.now() });
    for (const [oldest, { at }] of all) {
        if (all.size <= KEPT_MAX && Date.now() - at < KEPT_MS) break;
        all.delete(oldest);
    }
}

/**
 * `key` says what is asked (null: nothing yet); equal keys share answers for half a minute. A change
 * of `tick` asks again although the key is the same.
 */
export function useQuery<T>(
    key: string | null,
    fetcher: (signal: AbortSignal) => Promise<T>,
    tick = 0,
): Query<T> {
    const [answer, setAnswer] = useState<{ key: string; data: T } | null>(null);
    const [error, setError] = useState<{ key: string; error: ApiError } | null>(null);
    const [attempt, setAttempt] = useState(0);
    const fetching = useRef(fetcher);
    fetching.current = fetcher;
    const asked = useRef("");
    const isLoggedOut = needsLogin.value;

    // Asked at once, not after the page has been painted.
    useLayoutEffect(() => {
        if (key === null || isLoggedOut) return;
        const old = keptNow().get(key);
        const isAgain = asked.current === `${key} ${tick} ${attempt}`;
        const isFirst = !asked.current.startsWith(`${key} `);
        asked.current = `${key} ${tick} ${attempt}`;
        if (old && (isFirst || isAgain) && Date.now() - old.at < KEPT_MS) {
            setAnswer({ key, data: old.value as T });
            setError(null);
            return;
        }
        const abort = new AbortController();
        fetching.current(abort.signal).then(
            (data) => {
                if (abort.signal.aborted) return;
                keep(key, data);
                setAnswer({ key, data });
                setError(null);
            },
            (e: unknown) => {
                if (abort.signal.aborted) return;
                setError({
                    key,
                    error: e instanceof ApiError ? e : new ApiError(String(e), 0, "page"),
                });
            },
        );
        return () => abort.abort();
    }, [key, tick, attempt, isLoggedOut]);

    const isCurrent = answer !== null && answer.key === key;
    const failed = error !== null && error.key === key ? error.error : null;
    return {
        data: answer?.data,
        error: failed,
        isLoading: key !== null && !isCurrent && failed === null,
        isOld: answer !== null && !isCurrent,
        retry: () => {
            setError(null);
            setAttempt((n) => n + 1);
        },
    };
}
