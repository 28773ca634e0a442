// What was switched to, and when: two typed arrays that grow to a bound, then the oldest make room.

const FIRST_CAPACITY = 1 << 12;
const CAPACITY = 1 << 18; // 4 MiB

export interface SwitchRing {
    readonly capacity: number;
    /** Times never go back. */
    push(time: number, value: number): void;
    /** The value of the last switch at or before the time; 0 where it is not known any more. */
    at(time: number): number;
    /** How many there ever were. */
    count(): number;
    /** All but those after so many may make room. */
    forget(count: number): void;
    clear(): void;
}

export function createSwitchRing(capacity = CAPACITY, first = FIRST_CAPACITY): SwitchRing {
    let times = new Float64Array(first);
    let values = new Float64Array(first);
    let mask = first - 1;
    let oldest = 0; // that is kept, of all that were ever pushed
    let next = 0;

    function grow(): void {
        const size = times.length * 2;
        const oldTimes = times;
        const oldValues = values;
        const oldMask = mask;
        times = new Float64Array(size);
        values = new Float64Array(size);
        mask = size - 1;
        for (let i = oldest; i < next; i++) {
            times[i & mask] = oldTimes[i & oldMask]!;
            values[i & mask] = oldValues[i & oldMask]!;
        }
    }

    return {
        capacity,
        push(time, value) {
            if (next - oldest > mask) {
                if (times.length < capacity) grow();
                else oldest++;
            }
            const place = next++ & mask;
            times[place] = time;
            values[place] = value;
        },
        at(time) {
            let low = oldest;
            let high = next;
            while (low < high) {
                const middle = Math.floor((low + high) / 2);
                if (times[middle & mask]! <= time) low = middle + 1;
                else high = middle;
            }
            return low === oldest ? 0 : values[(low - 1) & mask]!;
        },
        count: () => next,
        forget(count) {
            oldest = Math.min(next, Math.max(oldest, count));
        },
        clear() {
            times = new Float64Array(first);
            values = new Float64Array(first);
            mask = first - 1;
            oldest = next = 0;
        },
    };
}
