// Threads that allocate through the system's allocator, counted: printed as JSON.
use std::hint::black_box;
use std::thread;

#[inline(never)]
fn fill_buffers(rounds: usize) -> usize {
    let mut total = 0;
    for _ in 0..rounds {
        let buffer: Vec<u8> = Vec::with_capacity(50_000);
        total += buffer.capacity();
        black_box(&buffer);
    }
    total
}

#[inline(never)]
fn keep_boxes(rounds: usize) -> usize {
    for _ in 0..rounds {
        std::mem::forget(black_box(Box::new([0u8; 20_000])));
    }
    rounds * 20_000
}

fn main() {
    let threads: Vec<_> = (0..4)
        .map(|_| thread::spawn(|| (fill_buffers(400), keep_boxes(200))))
        .collect();
    let (mut filled, mut kept) = (0, 0);
    for t in threads {
        let (f, k) = t.join().unwrap();
        filled += f;
        kept += k;
    }
    println!("{{\"filled\": {}, \"kept\": {}, \"threads\": 4}}", filled, kept);
}
