// Our own requests are no part of the app's traces. OpenTelemetry's API registers itself under a
// symbol that all its copies share, and instrumentations look for a key in the active context: both
// are there without importing anything.

interface Context {
    setValue(key: symbol, value: unknown): Context;
}
interface ContextManager {
    active(): Context;
    with<T>(context: Context, work: () => T): T;
}

const apiKey = Symbol.for("opentelemetry.js.api.1");
const suppressKey = Symbol.for("OpenTelemetry SDK Context Key SUPPRESS_TRACING");

/** Calls it where instrumentations see that they should not trace. */
export function withoutTracing<T>(work: () => T): T {
    const api = (globalThis as Record<symbol, unknown>)[apiKey] as
        | { context?: ContextManager }
        | undefined;
    let context: Context | undefined;
    try {
        context = api?.context?.active().setValue(suppressKey, true);
    } catch {
        // Somebody else's manager is broken: it is theirs to tell.
    }
    return context && api?.context ? api.context.with(context, work) : work();
}
