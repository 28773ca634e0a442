// Tells where the thread's OpenTelemetry context changes, while it is asked to.
//
// A context changes in two ways only. The app changes it: ContextManager.with, which is wrapped. Or
// Node restores it, before it calls something back or goes on after an await: async_hooks says so.
// The hook compares the context with the one before, and tells only of a different one; that costs
// tens of nanoseconds for each call-back. What ends needs no hook: whatever runs next says so itself.
// Only AsyncResource.runInAsyncScope, as pools of connections use it to call back, ends within other
// code. It is wrapped too; in Node 24 it restores the context only after it has told the hooks.
import { AsyncResource, createHook } from "node:async_hooks";
import type { Context, ContextManager } from "./otel_api.js";

export interface Watcher {
    entered(context: Context): void;
    /** Contexts and spans are the app's: what they throw must not get into hooks, where it would
     * end the app. */
    failed(): void;
}

/** Replaces a method; the function that comes back restores it. */
function replaceMethod<T extends object, K extends keyof T>(
    object: T,
    name: K,
    made: T[K],
): () => void {
    const own = Object.getOwnPropertyDescriptor(object, name);
    const rest = own ?? { configurable: true, enumerable: false, writable: true };
    Object.defineProperty(object, name, { ...rest, value: made });
    return () => {
        if (object[name] !== made) return; // somebody wrapped it since: it stays, and does nothing
        if (own) Object.defineProperty(object, name, own);
        else delete (object as Partial<T>)[name];
    };
}

type Scope = [fn: (...args: unknown[]) => unknown, thisArg?: unknown, ...args: unknown[]];

/** Watches until the function that comes back is called. */
export function watchContexts(manager: ContextManager, watcher: Watcher): () => void {
    const { with: originalWith } = manager;
    const { runInAsyncScope } = AsyncResource.prototype;
    let on = true;
    let current: Context | undefined;

    function enter(context: Context | undefined): void {
        if (context === undefined || context === current) return;
        current = context;
        try {
            watcher.entered(context);
        } catch {
            watcher.failed();
        }
    }

    function active(): Context | undefined {
        try {
            return manager.active();
        } catch {
            watcher.failed();
            return undefined;
        }
    }

    function trackedWith(this: ContextManager, ...call: Parameters<typeof originalWith>): unknown {
        if (!on) return originalWith.apply(this, call);
        const before = current;
        enter(call[0]);
        try {
            return originalWith.apply(this, call);
        } finally {
            if (on) enter(before);
        }
    }

    function trackedScope(this: AsyncResource, ...[fn, thisArg, ...args]: Scope): unknown {
        const before = current;
        try {
            return runInAsyncScope.call(this, () => {
                if (on) enter(active());
                return Reflect.apply(fn, thisArg, args);
            });
        } finally {
            if (on) enter(before);
        }
    }

    const hook = createHook({ before: () => enter(active()) });
    const putBack = [
        replaceMethod(manager, "with", trackedWith),
        replaceMethod(
            AsyncResource.prototype,
            "runInAsyncScope",
            trackedScope as typeof runInAsyncScope,
        ),
    ];
    enter(active());
    hook.enable();
    return () => {
        on = false;
        hook.disable();
        for (const restore of putBack) restore();
    };
}
