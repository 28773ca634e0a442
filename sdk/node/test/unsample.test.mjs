// Sampled totals equal true totals: V8's sampling and rounding, played with many seeds.
import assert from "node:assert/strict";
import test from "node:test";
import { createUnsampler, goodInterval } from "../dist/esm/unsample.js";

function random(seed) {
    let state = seed;
    return () => {
        state = (state + 0x6d2b79f5) | 0;
        let t = Math.imul(state ^ (state >>> 15), 1 | state);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
}

/** What V8 says of sampled objects of a size: that times how many they stand for, rounded. */
function productOf(size, count, interval) {
    return size * Math.floor(count / (1 - Math.exp(-size / interval)) + 0.5);
}

/** Samples of so many bytes of objects of one size, made at one place. */
function play(size, volume, interval, next) {
    const chance = 1 - Math.exp(-size / interval);
    let count = 0;
    // From one sampled object to the next: as many as a coin of that chance leaves out.
    let at = 0;
    for (;;) {
        at += 1 + Math.floor(Math.log(1 - next()) / Math.log(1 - chance));
        if (at * size > volume) break;
        count++;
    }
    const product = productOf(size, 1, interval);
    const samples = new Map(count > 0 ? [[product, count]] : []);
    const unsample = createUnsampler(interval);
    return { ...unsample(samples, productOf(size, count, interval)), asSampled: product * count };
}

const interval = goodInterval(512 << 10);

test("the interval is close to what was asked for", () => {
    assert.equal(interval, 524_160);
    assert.equal(goodInterval(1000), 1000);
    for (const bytes of [1 << 17, 1 << 18, 1 << 20, 1 << 24]) {
        assert.ok(Math.abs(goodInterval(bytes) / bytes - 1) < 0.08);
    }
});

test("bytes are unbiased for all sizes", () => {
    const sizes = [16, 24, 40, 64, 88, 272, 1008, 8208, 65_552, 200_000, 400_000, 524_000, 700_000];
    for (const size of [...sizes, 1_200_000, 4_000_000]) {
        const seeds = 40;
        const volume = 400 * interval;
        let sum = 0;
        for (let seed = 1; seed <= seeds; seed++) {
            sum += play(size, volume, interval, random(seed * 7919 + size)).bytes;
        }
        const mean = sum / seeds / (Math.floor(volume / size) * size);
        // 16,000 samples: 0.8 % is the usual error.
        assert.ok(Math.abs(mean - 1) < 0.03, `objects of ${size}: ${mean}`);
    }
});

test("few samples of large objects are not far off", () => {
    for (const size of [65_552, 200_000, 400_000, 524_000, 700_000, 1_200_000]) {
        const seeds = 3000;
        const each = Math.max(1, Math.round((2 * interval) / size));
        let sum = 0;
        for (let seed = 1; seed <= seeds; seed++) {
            sum += play(size, each * size, interval, random(seed * 104_729 + size)).bytes;
        }
        const mean = sum / seeds / (each * size);
        assert.ok(Math.abs(mean - 1) < 0.25, `objects of ${size}: ${mean}`);
    }
});

test("samples of large objects are not taken as V8 rounds them", () => {
    const volume = 4000 * interval;
    const { bytes, asSampled } = play(524_000, volume, interval, random(3));
    assert.ok(asSampled / volume > 1.2, "V8 rounds 1.58 to 2");
    assert.ok(Math.abs(bytes / volume - 1) < 0.06, `${bytes / volume}`);
});

test("objects of usual sizes are counted", () => {
    for (const size of [16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 104, 112, 120, 128]) {
        const volume = 4000 * interval;
        const { objects } = play(size, volume, interval, random(size));
        const ratio = objects / Math.floor(volume / size);
        assert.ok(Math.abs(ratio - 1) < 0.06, `objects of ${size}: ${ratio}`);
    }
});

test("a product that no size gives is taken as it is", () => {
    assert.deepEqual(createUnsampler(interval)(new Map([[7, 2]]), 14), { objects: 2, bytes: 14 });
});
