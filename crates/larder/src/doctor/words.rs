//! Sizes and times, as people read them.

use std::time::Duration;

/// Bytes in the unit that fits, by 1024.
pub fn size(bytes: u64) -> String {
    let units = [("GB", 30), ("MB", 20), ("KB", 10)];
    match units.into_iter().find(|(_, bits)| bytes >= 1 << bits) {
        Some((unit, bits)) => {
            let tenths = (u128::from(bytes) * 10) >> bits;
            match tenths < 100 && !tenths.is_multiple_of(10) {
                true => format!("{}.{} {unit}", tenths / 10, tenths % 10),
                false => format!("{} {unit}", tenths / 10),
            }
        }
        None => format!("{bytes} bytes"),
    }
}

/// A short time.
pub fn time(duration: Duration) -> String {
    let micros = duration.as_micros();
    match micros {
        0..1_000 => format!("{micros} us"),
        1_000..10_000 => format!("{}.{} ms", micros / 1000, micros % 1000 / 100),
        10_000..10_000_000 => format!("{} ms", micros / 1000),
        _ => format!("{} s", micros / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_unit() {
        for (bytes, shown) in [
            (7, "7 bytes"),
            (1024, "1 KB"),
            (1536, "1.5 KB"),
            (20 << 20, "20 MB"),
            ((5 << 30) + (1 << 29), "5.5 GB"),
            (u64::MAX, "17179869183 GB"),
        ] {
            assert_eq!(size(bytes), shown);
        }
        for (micros, shown) in [(7, "7 us"), (1500, "1.5 ms"), (25_000, "25 ms"), (12_000_000, "12 s")] {
            assert_eq!(time(Duration::from_micros(micros)), shown);
        }
    }
}
