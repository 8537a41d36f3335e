//! Numbers in decimal digits, without the machinery of `format!`.

/// How many digits a number has at most.
pub const DIGITS_MAX: usize = 20;

/// Appends a number in digits.
pub fn append_decimal(number: u64, out: &mut Vec<u8>) {
    let mut room = [0; DIGITS_MAX];
    out.extend_from_slice(digits(number, &mut room));
}

/// A number in digits, which are written to `room`.
pub fn digits(mut number: u64, room: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let mut at = room.len();
    loop {
        at -= 1;
        room[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    &room[at..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_digits() {
        for number in [0, 7, 10, 999, 1_000_000, u64::MAX] {
            let mut out = b"n=".to_vec();
            append_decimal(number, &mut out);
            assert_eq!(out, format!("n={number}").into_bytes());
        }
    }
}
