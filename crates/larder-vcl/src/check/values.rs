//! Numbers with units.

use crate::ast::Digits;
use crate::functions::numbers;

/// What to say of a unit that is none of a DURATION.
pub const DURATION_HELP: &str = "a DURATION has one of the units ms, s, m, h, d, w and y";

/// What to say of a unit that is none of BYTES.
pub const BYTES_HELP: &str = "BYTES have one of the units B, KB, MB, GB, TB and PB";

/// The number as a fraction.
pub fn real(digits: Digits) -> f64 {
    match digits {
        // Fifteen digits are exact.
        Digits::Int(value) => value as f64,
        Digits::Real(value) => value,
    }
}

/// The seconds of a number with a unit of time.
pub fn seconds(digits: Digits, unit: &str) -> Option<f64> {
    Some(real(digits) * numbers::seconds_of(unit.as_bytes())?)
}

/// The bytes of a number with a unit of BYTES; a fraction of a byte is none.
pub fn bytes(digits: Digits, unit: &str) -> Option<i64> {
    let (value, factor) = (real(digits), numbers::bytes_of(unit.as_bytes())?);
    // A number that is too large becomes the largest.
    (factor > 1.0 || value.fract() == 0.0).then_some((value * factor) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_varnish() {
        for (value, unit, expected) in [
            (1.5, "s", Some(1.5)),
            (2.0, "ms", Some(0.002)),
            (1.0, "y", Some(31_536_000.0)),
            (1.0, "S", None),
            (1.0, "kb", None),
        ] {
            assert_eq!(seconds(Digits::Real(value), unit), expected, "{value}{unit}");
        }
        for (value, unit, expected) in [
            (10.0, "B", Some(10)),
            (1.5, "b", None),
            (1.5, "KB", Some(1536)),
            (2.0, "m", Some(2 << 20)),
            (1.0, "PB", Some(1 << 50)),
            (1.0, "EB", None),
            (1.0, "kbb", None),
        ] {
            assert_eq!(bytes(Digits::Real(value), unit), expected, "{value}{unit}");
        }
    }
}
