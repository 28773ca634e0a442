// What runs in this thread already: started by the app, by --import, or by another copy of the
// package. A profiler runs once, whoever starts it first.
import type { Config, ProfilerName } from "./config.js";
import type { Handle } from "./options.js";
import { onceInThread } from "./workers.js";

const NAMES: ProfilerName[] = ["cpu", "wall", "allocations", "heap", "eventLoop", "snapshots"];

function running(): Map<ProfilerName, Handle> {
    return onceInThread("running", () => new Map<ProfilerName, Handle>());
}

function wanted(config: Config): ProfilerName[] {
    return NAMES.filter((name) => config[name].enabled);
}

/** The handle of what runs, where all that is wanted does. Else turns off what runs already. */
export function runningFor(config: Config): Handle | undefined {
    const known = running();
    const names = wanted(config);
    const fresh = names.filter((name) => !known.has(name));
    if (names.length > 0 && fresh.length === 0) return known.get(names[0] as ProfilerName);
    for (const name of names) {
        if (!fresh.includes(name)) config[name] = { ...config[name], enabled: false } as never;
    }
    return undefined;
}

/** Remembers the handle until it is stopped. */
export function remember(config: Config, handle: Handle): Handle {
    const known = running();
    for (const name of wanted(config)) known.set(name, handle);
    return handle;
}

export function forget(handle: Handle): void {
    const known = running();
    for (const [name, other] of known) if (other === handle) known.delete(name);
}
