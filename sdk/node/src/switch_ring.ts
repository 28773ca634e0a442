// What was switched to, and when: two typed arrays that grow to a bound, then the oldest make room.

const FIRST_CAPACITY = 1 << 12;
const CAPACITY = 1 << 18; // 3 MiB: 15 seconds of 17,000 switches a second

export interface SwitchRing {
    /** Times never go back. */
    push(time: number, value: number): void;
    /** The value of the last switch at or before the time; 0 where there is none. */
    at(time: number): number;
    /** How many had to make room. */
    dropped(): number;
    clear(): void;
}

export function createSwitchRing(most = CAPACITY, first = FIRST_CAPACITY): SwitchRing {
    let times = new Float64Array(first);
    let values = new Float64Array(first);
    let mask = first - 1;
    let next = 0; // of all that were ever pushed since the last clear
    let dropped = 0;

    /** Only while nothing has been overwritten, so that places stay what they are. */
    function grow(): void {
        const size = times.length * 2;
        const oldTimes = times;
        const oldValues = values;
        times = new Float64Array(size);
        values = new Float64Array(size);
        times.set(oldTimes);
        values.set(oldValues);
        mask = size - 1;
    }

    return {
        push(time, value) {
            if (next > mask) {
                if (times.length < most) grow();
                else dropped++;
            }
            const place = next++ & mask;
            times[place] = time;
            values[place] = value;
        },
        at(time) {
            let low = Math.max(0, next - times.length);
            let high = next;
            while (low < high) {
                const middle = Math.floor((low + high) / 2);
                if (times[middle & mask]! <= time) low = middle + 1;
                else high = middle;
            }
            const found = low - 1;
            return found < Math.max(0, next - times.length) ? 0 : values[found & mask]!;
        },
        dropped: () => dropped,
        clear() {
            times = new Float64Array(first);
            values = new Float64Array(first);
            mask = first - 1;
            next = 0;
        },
    };
}
