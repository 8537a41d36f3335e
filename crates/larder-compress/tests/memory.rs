//! What an encoder takes: alone in its process, so that nothing else is counted.

use larder_compress::{Coding, Encoder, Params, memory_bytes};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<std::alloc::System> = &INSTRUMENTED_SYSTEM;

#[test]
fn an_encoder_takes_what_was_said() {
    let page = page(1 << 20);
    let mut out = Vec::with_capacity(page.len());
    for (coding, levels) in [(Coding::Gzip, &[1, 9][..]), (Coding::Brotli, &[1, 3, 4, 5, 8, 9, 10])] {
        for &level in levels {
            for window_bits in [9, 19] {
                let params = Params { level, window_bits };
                let before = Region::new(ALLOCATOR);
                let mut encoder = Encoder::new(coding, params).expect("there is memory");
                // The slow levels have seen their window by then.
                let enough = if level < 10 { page.len() } else { page.len() / 2 };
                for piece in page[..enough].chunks(16 * 1024) {
                    out.clear();
                    encoder.encode(piece, &mut out).expect("it takes everything");
                }
                let counts = before.change();
                let held = counts.bytes_allocated - counts.bytes_deallocated;
                let said = memory_bytes(coding, params);
                assert!(held <= said && said <= 3 * held + (1 << 20), "{coding} {params:?} holds {held}, said {said}");
            }
        }
    }
}

/// Text that repeats itself, but not too much.
fn page(len: usize) -> Vec<u8> {
    let mut page = Vec::new();
    while page.len() < len {
        let at = page.len();
        page.extend_from_slice(format!("<p class=\"c{}\">{}</p>", at * 7 % 1013, at * 31 % 7919).as_bytes());
    }
    page
}
