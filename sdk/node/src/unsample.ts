// From V8's sampled objects back to all objects.
//
// V8 samples bytes as a Poisson process of one in R: an object of S bytes is hit with the chance
// 1 - exp(-S/R), so a sample stands for 1/(1 - exp(-S/R)) objects. V8 hands out a sample's bytes as S
// times that number *rounded*, and neither the size nor the number of objects. The rounding is wrong
// by a quarter for objects about as large as R. So the size is found again: which S gives this product,
// and, where several do, the sum of the node, of which V8 rounds the count of all samples of a size?

export interface Weight {
    objects: number;
    bytes: number;
}

/** 8 times a number with many divisors: for sizes that divide R the product is R + S, which shows S. */
const goodDivisor = 20_160;

/** A sampling interval close to the wanted one that lets sizes be told apart: 512 KiB is 524,160. */
export function goodInterval(bytes: number): number {
    const parts = Math.round(bytes / goodDivisor);
    return parts >= 4 ? parts * goodDivisor : Math.max(1, Math.round(bytes));
}

function scaleOf(size: number, interval: number): number {
    return 1 / -Math.expm1(-size / interval);
}

/** As V8 does it, of several samples of a size. */
function productOf(size: number, count: number, interval: number): number {
    return size * Math.floor(count * scaleOf(size, interval) + 0.5);
}

function weightOf(size: number, interval: number): Weight {
    const objects = scaleOf(size, interval);
    return { objects, bytes: objects * size };
}

/** Of a node: how many samples there are of each product, and V8's sum of them. */
export type Unsampler = (samples: Map<number, number>, selfSize: number) => Weight;

/** Remembers the answers for one interval. */
export function createUnsampler(interval: number): Unsampler {
    const small = remembered((product) => smallWeight(product, interval));
    const sizes = remembered((product) => largeSizes(product, interval));
    return (samples, selfSize) => {
        const sum: Weight = { objects: 0, bytes: 0 };
        const large: [product: number, count: number][] = [];
        let rest = selfSize;
        for (const [product, count] of samples) {
            if (product > interval * surelySmall) {
                large.push([product, count]);
                continue;
            }
            rest -= product * count;
            add(sum, small(product), count);
        }
        for (const [product, count] of large) {
            const known = large.length === 1 && count > 1 ? rest : undefined;
            add(sum, largeWeight(sizes(product), product, count, known, interval), count);
        }
        return sum;
    };
}

function add(sum: Weight, { objects, bytes }: Weight, count: number): void {
    sum.objects += objects * count;
    sum.bytes += bytes * count;
}

const maxRemembered = 10_000;

function remembered<T>(find: (product: number) => T): (product: number) => T {
    const known = new Map<number, T>();
    return (product) => {
        let found = known.get(product);
        if (found === undefined) {
            found = find(product);
            if (known.size < maxRemembered) known.set(product, found);
        }
        return found;
    };
}

/** Products up to this are taken for those of small objects, of which the bytes are nearly R whatever
 * the size is. */
const surelySmall = 1.01;

/** Several sizes may fit; the smallest is the likeliest, as programs make more of them. */
function smallWeight(product: number, interval: number): Weight {
    const least = Math.max(8, Math.ceil((product - interval) / 8) * 8);
    for (let size = least; size <= product; size += 8) {
        if (product % size === 0 && productOf(size, 1, interval) === product) {
            return weightOf(size, interval);
        }
    }
    return { objects: 1, bytes: product };
}

function largeSizes(product: number, interval: number): number[] {
    const found: number[] = [];
    // The product of a size is less than the interval and the size.
    const most = Math.ceil(product / Math.max(8, product - interval - 8)) + 1;
    for (let count = 1; count <= most; count++) {
        const size = product / count;
        if (size % 8 === 0 && productOf(size, 1, interval) === product) found.push(size);
    }
    return found;
}

/** The size that gives the sum, if that is known; else each may be it. */
function largeWeight(
    sizes: number[],
    product: number,
    count: number,
    sum: number | undefined,
    interval: number,
): Weight {
    if (sizes.length === 0) return { objects: 1, bytes: product };
    if (sum !== undefined) {
        const error = (size: number): number => Math.abs(productOf(size, count, interval) - sum);
        return weightOf(
            sizes.reduce((best, size) => (error(size) < error(best) ? size : best)),
            interval,
        );
    }
    const mean: Weight = { objects: 0, bytes: 0 };
    for (const size of sizes) add(mean, weightOf(size, interval), 1 / sizes.length);
    return mean;
}
