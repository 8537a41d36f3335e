//! Times and sizes in few letters, for lines that people read.

/// Seconds in few letters: three digits at most before the point.
pub fn duration(seconds: f64) -> String {
    match seconds {
        ..0.000_999_5 => format!("{:.0}us", seconds * 1e6),
        ..0.009_95 => format!("{:.1}ms", seconds * 1e3),
        ..0.999_5 => format!("{:.0}ms", seconds * 1e3),
        ..9.95 => format!("{seconds:.1}s"),
        _ => format!("{seconds:.0}s"),
    }
}

/// The same of bytes, in units of 1024.
pub fn size(bytes: u64) -> String {
    let mut left = bytes as f64;
    for unit in ["", "k", "M", "G", "T"] {
        if left < 999.5 || unit == "T" {
            return if unit.is_empty() || left >= 9.95 {
                format!("{left:.0}{unit}")
            } else {
                format!("{left:.1}{unit}")
            };
        }
        left /= 1024.0;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_are_short() {
        for (seconds, expected) in [
            (0.0, "0us"),
            (0.000_25, "250us"),
            (0.001_5, "1.5ms"),
            (0.045, "45ms"),
            (0.9994, "999ms"),
            (0.9996, "1.0s"),
            (61.0, "61s"),
        ] {
            assert_eq!(duration(seconds), expected);
        }
        for (bytes, expected) in
            [(0, "0"), (999, "999"), (1000, "1.0k"), (12_595, "12k"), (5_242_880, "5.0M"), (u64::MAX, "16777216T")]
        {
            assert_eq!(size(bytes), expected);
        }
    }
}
