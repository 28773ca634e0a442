// Closures and generics, as Rust compiles them.
use std::hint::black_box;
use std::time::{Duration, Instant};

#[inline(always)]
fn spin(n: u64) -> u64 {
    let mut x = n;
    for _ in 0..n * 1000 {
        x = black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1));
    }
    x
}

#[inline(never)]
fn hot_sixty() -> u64 {
    spin(60)
}

#[inline(never)]
fn hot_forty<T: Fn(u64) -> u64>(f: T) -> u64 {
    f(40) + 1
}

#[inline(never)]
fn run(until: Instant) -> u64 {
    let mut sum = 0u64;
    while Instant::now() < until {
        sum = sum.wrapping_add(hot_sixty());
        sum = sum.wrapping_add(hot_forty(|n| spin(n)));
    }
    sum
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(5.0);
    black_box(run(Instant::now() + Duration::from_secs_f64(seconds)));
}
