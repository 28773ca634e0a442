// Code with known costs, and the way to read a profile.

/** Runs for a number of turns, so that two of them compare by work and not by time. */
export function burnLittle(turns) {
    let x = 0;
    for (let i = 0; i < turns; i++) x += Math.sqrt(i) * Math.sin(i);
    return x;
}

export function burnMuch(turns) {
    let x = 0;
    for (let i = 0; i < turns * 3; i++) x += Math.sqrt(i) * Math.sin(i);
    return x;
}

/** A call of one of many is never inlined: V8 shows functions that were inlined before a profiler
 * ran as part of their callers. */
const work = [burnLittle, burnMuch, () => 1, () => 2, () => 3, () => 4];

/** Keeps the thread busy and the loop turning. */
export async function burnFor(millis) {
    const until = performance.now() + millis;
    let x = 0;
    while (performance.now() < until) {
        for (const call of work) x += call(20_000);
        await new Promise((resolve) => setImmediate(resolve));
    }
    return x;
}

/** The same by the time that the process really had, which on a busy machine is less. */
export async function burnCpu(millis) {
    const from = process.cpuUsage();
    const until = performance.now() + 15_000;
    for (;;) {
        const { user, system } = process.cpuUsage(from);
        if (user + system > millis * 1000 || performance.now() > until) return;
        await burnFor(20);
    }
}

export function block(millis) {
    const until = performance.now() + millis;
    let x = 0;
    while (performance.now() < until) {
        for (let i = 0; i < 20_000; i++) x += Math.sqrt(i);
    }
    return x;
}

export const sleep = (millis) => new Promise((resolve) => setTimeout(resolve, millis));

/** Waits until it holds; fails after some seconds. */
export async function eventually(holds, seconds = 10) {
    const until = performance.now() + seconds * 1000;
    for (;;) {
        const value = await holds();
        if (value) return value;
        if (performance.now() > until) throw new Error("it did not happen in time");
        await sleep(20);
    }
}

/** An exporter that keeps what it gets. */
export function collector() {
    const profiles = [];
    const batches = [];
    return {
        profiles,
        batches,
        exporter(batch) {
            batches.push(batch);
            profiles.push(...batch.profiles);
        },
    };
}

/** The frames of a stack, the leaf first. */
export function framesOf(profile, stack) {
    const found = [];
    for (let at = stack; at !== 0; at = profile.stacks.parent[at]) {
        found.push(profile.frames[profile.stacks.frame[at]]);
    }
    return found;
}

/** Sum of a value over the samples that have a function on their stack. */
export function totalOf(profile, name, value = 0) {
    let sum = 0;
    for (const sample of profile.samples) {
        if (name === undefined || framesOf(profile, sample.stack).some((f) => f.name === name)) {
            sum += sample.values[value];
        }
    }
    return sum;
}

/** The same with the function as the leaf. */
export function selfOf(profile, name, value = 0) {
    let sum = 0;
    for (const sample of profile.samples) {
        if (framesOf(profile, sample.stack)[0]?.name === name) sum += sample.values[value];
    }
    return sum;
}

export const quiet = { enabled: true, maxCpu: 0, maxLagMillis: 0, logLevel: "silent" };
