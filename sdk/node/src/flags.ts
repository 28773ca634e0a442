// The app's feature flags: asked before every window, and all of them must say yes.
export type Flag = () => boolean | Promise<boolean>;

/** Rejects where there is no answer in time: a window may be open meanwhile. */
function inTime<T>(answer: Promise<T>, millis: number): Promise<T> {
    return new Promise((resolve, reject) => {
        const late = (): void => reject(new Error(`no answer in ${millis} ms`));
        const timer = setTimeout(late, millis);
        timer.unref();
        answer.then(resolve, reject).finally(() => clearTimeout(timer));
    });
}

/** Synchronous where the flags are, so that the first window begins with the call that starts it. A
 * flag that throws, rejects or does not answer says no. */
export function askFlags(
    flags: Iterable<Flag | undefined>,
    failed: (error: unknown) => void,
    millis = 5_000,
): boolean | Promise<boolean> {
    const no = (error: unknown): boolean => {
        failed(error);
        return false;
    };
    const later: Promise<boolean>[] = [];
    try {
        for (const flag of new Set(flags)) {
            const answer = flag ? flag() : true;
            if (answer === false) return false;
            if (answer === true) continue;
            const promise = Promise.resolve(answer);
            // Where a later flag says no, nobody waits for it: its rejection would end the app.
            promise.catch(() => {});
            later.push(promise);
        }
    } catch (error) {
        return no(error);
    }
    if (later.length === 0) return true;
    const all = Promise.all(later).then((answers) => answers.every((yes) => yes === true));
    return inTime(all, millis).catch(no);
}
