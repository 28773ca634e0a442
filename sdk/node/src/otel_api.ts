// The little of @opentelemetry/api that is needed, found where the API keeps it for all its copies:
// a global object under a symbol that is fixed for version 1. So it does not matter whether the app
// has the API as ES module, as CommonJS or inside a bundle, and nothing is loaded that is not there.

export interface SpanContext {
    traceId: string;
    spanId: string;
    isRemote?: boolean;
}

/** What is read of a span. The SDK's own spans have more than the API says: all of it is optional. */
export interface Span {
    spanContext(): SpanContext;
    isRecording(): boolean;
    readonly attributes?: Record<string, unknown>;
    readonly name?: string;
    readonly kind?: number;
    readonly parentSpanContext?: SpanContext; // version 2 of the SDK
    readonly parentSpanId?: string; // version 1
}

export interface Context {
    getValue(key: symbol): unknown;
}

export interface ContextManager {
    active(): Context;
    with(context: Context, fn: unknown, thisArg?: unknown, ...args: unknown[]): unknown;
}

const API = Symbol.for("opentelemetry.js.api.1");
const SPAN = Symbol.for("OpenTelemetry Context Key SPAN");
const KIND_SERVER = 1;

/** What keeps the app's contexts; undefined until an OpenTelemetry SDK has been started. */
export function contextManager(): ContextManager | undefined {
    const api = (globalThis as Record<symbol, unknown>)[API];
    const manager = (api as { context?: Partial<ContextManager> } | undefined)?.context;
    if (typeof manager?.active !== "function" || typeof manager.with !== "function")
        return undefined;
    return manager as ContextManager;
}

export function spanOf(context: Context): Span | undefined {
    return context.getValue(SPAN) as Span | undefined;
}

/** The route that a span serves: its attribute, or what a server span's name says ("GET /cart"). Never
 * a query: some put the whole address there. */
export function routeOf(span: Span): string | undefined {
    const route = span.attributes?.["http.route"];
    if (typeof route === "string" && route !== "") return /^[^?#]+/.exec(route)?.[0];
    if (span.kind !== KIND_SERVER || typeof span.name !== "string") return undefined;
    return /^[A-Z]+ (\/[^\s?#]*)([?#]\S*)?$/.exec(span.name)?.[1];
}

/** Undefined where the parent is elsewhere: its route is not that of what runs here. */
export function parentOf(span: Span): string | undefined {
    if (span.parentSpanContext?.isRemote) return undefined;
    return span.parentSpanContext?.spanId ?? span.parentSpanId;
}
