// Work of known cost: what a profile of this service must say is known beforehand.
import { performance } from "node:perf_hooks";

export interface Item {
    id: number;
    name: string;
    price: number;
}

export interface Report {
    total: number;
    items: Item[];
}

/** One round is the same amount of work for both functions below. */
const ROUND = 40_000;

/** Costs three times as much as tax(). */
export function discount(rounds: number): number {
    let off = 0;
    for (let i = 0; i < 3 * rounds * ROUND; i++) {
        off += Math.sqrt(i ^ 0x5bd1e995);
    }
    return off;
}

export function tax(rounds: number): number {
    let due = 0;
    for (let i = 0; i < rounds * ROUND; i++) {
        due += Math.sqrt(i ^ 0x5bd1e995);
    }
    return due;
}

/** Blocks the event loop: nothing else is served meanwhile. */
export function blockFor(millis: number): number {
    const end = performance.now() + millis;
    let rounds = 0;
    while (performance.now() < end) {
        rounds++;
    }
    return rounds;
}

const forgotten: number[][] = [];

/** Never lets go of what it makes: 1,024 bytes of heap for each kilobyte, 8 for each number. */
export function remember(kilobytes: number): number {
    const numbers = new Array<number>(kilobytes * 128);
    for (let i = 0; i < numbers.length; i++) {
        numbers[i] = i + 0.5;
    }
    forgotten.push(numbers);
    return forgotten.length;
}

const catalogue: Item[] = Array.from({ length: 200 }, (_, id) => ({
    id,
    name: `item ${id}`,
    price: id * 1.25,
}));
const stored = JSON.stringify(catalogue);

/** What most services do most of the time. */
export function report(): Report {
    const items: Item[] = JSON.parse(stored);
    return { total: items.reduce((sum, { price }) => sum + price, 0), items };
}
