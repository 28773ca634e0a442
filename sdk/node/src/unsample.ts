// From V8's sampled objects back to all objects.
//
// V8 samples bytes as a Poisson process of one in R: an object of S bytes is hit with the chance
// 1 - exp(-S/R), so a sample stands for 1/(1 - exp(-S/R)) objects. V8 hands out a sample's bytes as S
// times that number *rounded*, and neither the size nor the number of objects. The rounding is wrong
// by a quarter for objects about as large as R. So the size is found again: which S gives this product?

export interface Weight {
    objects: number;
    bytes: number;
}

/** 8 times this many divisors: for sizes that divide R the product is R + S, so S can be seen. */
const goodDivisor = 20_160;
const maxLargeCount = 20;

/** A sampling interval close to the wanted one that lets sizes be told apart: 512 KiB is 524,160. */
export function goodInterval(bytes: number): number {
    const parts = Math.round(bytes / goodDivisor);
    return parts >= 4 ? parts * goodDivisor : Math.max(1, Math.round(bytes));
}

function scaleOf(size: number, interval: number): number {
    return 1 / -Math.expm1(-size / interval);
}

function productOf(size: number, interval: number): number {
    return size * Math.floor(scaleOf(size, interval) + 0.5);
}

function weightOf(size: number, interval: number): Weight {
    const objects = scaleOf(size, interval);
    return { objects, bytes: objects * size };
}

/** Remembers the answers for one interval. */
export function createUnsampler(interval: number): (product: number) => Weight {
    const known = new Map<number, Weight>();
    return (product) => {
        let weight = known.get(product);
        if (!weight) {
            weight = solve(product, interval);
            if (known.size < 10_000) known.set(product, weight);
        }
        return weight;
    };
}

function solve(product: number, interval: number): Weight {
    const large = largeSizes(product, interval);
    if (large.length > 0) return likely(large, interval);
    // Many small ones may fit; the smallest is the likeliest, as programs make more of them.
    const least = Math.max(8, Math.ceil((product - interval) / 8) * 8);
    for (let size = least; size <= product; size += 8) {
        if (product % size === 0 && productOf(size, interval) === product) {
            return weightOf(size, interval);
        }
    }
    return { objects: 1, bytes: product };
}

/** Those of which a sample stands for few. */
function largeSizes(product: number, interval: number): number[] {
    const found: number[] = [];
    for (let count = 1; count <= maxLargeCount; count++) {
        const size = product / count;
        if (size % 8 === 0 && productOf(size, interval) === product) found.push(size);
    }
    return found;
}

/** Sizes that look the same, each as likely as it is to be sampled. */
function likely(sizes: number[], interval: number): Weight {
    let chance = 0;
    let objects = 0;
    let bytes = 0;
    for (const size of sizes) {
        chance += 1 / scaleOf(size, interval);
        objects += 1;
        bytes += size;
    }
    return { objects: objects / chance, bytes: bytes / chance };
}
