//! The oldest format of crypt(3): DES, 25 times, with two characters of salt. Only the first 8 characters of a password
//! count.
//!
//! Written bit by bit after FIPS 46-3, only for old user files; takes a tenth of a millisecond.

/// The digits in which crypt(3) writes numbers.
pub(super) const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Two characters of salt and eleven of the result.
pub(super) const HASH_BYTES: usize = 13;
const ROUNDS: usize = 16;
const TIMES: usize = 25;

/// The hash of `password` with the salt at the beginning of `hash`; `None` if that is no salt.
pub(super) fn crypt(password: &[u8], hash: &[u8]) -> Option<[u8; HASH_BYTES]> {
    let [first, second, ..] = *hash else {
        return None;
    };
    let salt = digit(first)? | digit(second)? << 6;
    let keys = round_keys(key_of(password));
    let swap = swap_mask(salt);

    // The initial permutation of zeros is zeros, and between two rounds of DES the final and the initial permutation
    // cancel out. So only the very last permutation remains.
    let (mut left, mut right) = (0_u32, 0_u32);
    for _ in 0..TIMES {
        for key in keys {
            (left, right) = (right, left ^ mix(right, key, swap));
        }
        (left, right) = (right, left);
    }
    let block = permute(u64::from(left) << 32 | u64::from(right), 64, &LAST);

    let mut out = [0; HASH_BYTES];
    out[..2].copy_from_slice(&[first, second]);
    // 64 bits and two zeros, six a character, the highest first.
    let bits = u128::from(block) << 2;
    for (n, byte) in out[2..].iter_mut().enumerate() {
        *byte = DIGITS[(bits >> (60 - 6 * n) & 0x3f) as usize];
    }
    Some(out)
}

fn digit(byte: u8) -> Option<u32> {
    DIGITS.iter().position(|&known| known == byte).map(|value| value as u32)
}

/// Seven bits of each of the first eight characters, above an unused parity bit.
fn key_of(password: &[u8]) -> u64 {
    let mut key = [0; 8];
    for (byte, &character) in key.iter_mut().zip(password) {
        *byte = character << 1;
    }
    u64::from_be_bytes(key)
}

fn round_keys(key: u64) -> [u64; ROUNDS] {
    const HALF: u64 = (1 << 28) - 1;
    let chosen = permute(key, 64, &KEY_CHOICE);
    let (mut left, mut right) = (chosen >> 28, chosen & HALF);
    KEY_SHIFTS.map(|shift| {
        let turn = |half: u64| (half << shift | half >> (28 - shift)) & HALF;
        (left, right) = (turn(left), turn(right));
        permute(left << 28 | right, 56, &ROUND_CHOICE)
    })
}

/// The mask of the salt, its lowest bit first: each set bit swaps a bit of the expanded half with the one 24 places
/// further on.
fn swap_mask(salt: u32) -> u64 {
    (0..12).filter(|bit| salt >> bit & 1 == 1).map(|bit| 1_u64 << (23 - bit)).sum()
}

/// DES's function of half a block and a key, with the salt's swap in between.
fn mix(half: u32, key: u64, swap: u64) -> u32 {
    let expanded = permute(half.into(), 32, &EXPANSION);
    let differ = (expanded >> 24 ^ expanded) & swap;
    let input = expanded ^ differ ^ differ << 24 ^ key;
    let chosen = BOXES.iter().enumerate().fold(0_u64, |chosen, (n, table)| {
        let six = (input >> (42 - 6 * n) & 0x3f) as usize;
        let (row, column) = (six >> 4 & 2 | six & 1, six >> 1 & 0xf);
        chosen << 4 | u64::from(table[16 * row + column])
    });
    permute(chosen, 32, &PERMUTATION) as u32
}

/// Reorders the bits of a `width`-bit number, counted from 1 at the top as in the standard.
fn permute(value: u64, width: u32, order: &[u8]) -> u64 {
    order.iter().fold(0, |out, &bit| out << 1 | value >> (width - u32::from(bit)) & 1)
}

/// The inverse of the initial permutation.
#[rustfmt::skip]
const LAST: [u8; 64] = [
    40,  8, 48, 16, 56, 24, 64, 32,   39,  7, 47, 15, 55, 23, 63, 31,
    38,  6, 46, 14, 54, 22, 62, 30,   37,  5, 45, 13, 53, 21, 61, 29,
    36,  4, 44, 12, 52, 20, 60, 28,   35,  3, 43, 11, 51, 19, 59, 27,
    34,  2, 42, 10, 50, 18, 58, 26,   33,  1, 41,  9, 49, 17, 57, 25,
];

#[rustfmt::skip]
const EXPANSION: [u8; 48] = [
    32,  1,  2,  3,  4,  5,    4,  5,  6,  7,  8,  9,    8,  9, 10, 11, 12, 13,   12, 13, 14, 15, 16, 17,
    16, 17, 18, 19, 20, 21,   20, 21, 22, 23, 24, 25,   24, 25, 26, 27, 28, 29,   28, 29, 30, 31, 32,  1,
];

#[rustfmt::skip]
const PERMUTATION: [u8; 32] = [
    16,  7, 20, 21, 29, 12, 28, 17,    1, 15, 23, 26,  5, 18, 31, 10,
     2,  8, 24, 14, 32, 27,  3,  9,   19, 13, 30,  6, 22, 11,  4, 25,
];

#[rustfmt::skip]
const KEY_CHOICE: [u8; 56] = [
    57, 49, 41, 33, 25, 17,  9,    1, 58, 50, 42, 34, 26, 18,   10,  2, 59, 51, 43, 35, 27,   19, 11,  3, 60, 52, 44, 36,
    63, 55, 47, 39, 31, 23, 15,    7, 62, 54, 46, 38, 30, 22,   14,  6, 61, 53, 45, 37, 29,   21, 13,  5, 28, 20, 12,  4,
];

#[rustfmt::skip]
const ROUND_CHOICE: [u8; 48] = [
    14, 17, 11, 24,  1,  5,    3, 28, 15,  6, 21, 10,   23, 19, 12,  4, 26,  8,   16,  7, 27, 20, 13,  2,
    41, 52, 31, 37, 47, 55,   30, 40, 51, 45, 33, 48,   44, 49, 39, 56, 34, 53,   46, 42, 50, 36, 29, 32,
];

const KEY_SHIFTS: [u32; ROUNDS] = [1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1];

#[rustfmt::skip]
const BOXES: [[u8; 64]; 8] = [
    [
        14,  4, 13,  1,  2, 15, 11,  8,  3, 10,  6, 12,  5,  9,  0,  7,
         0, 15,  7,  4, 14,  2, 13,  1, 10,  6, 12, 11,  9,  5,  3,  8,
         4,  1, 14,  8, 13,  6,  2, 11, 15, 12,  9,  7,  3, 10,  5,  0,
        15, 12,  8,  2,  4,  9,  1,  7,  5, 11,  3, 14, 10,  0,  6, 13,
    ],
    [
        15,  1,  8, 14,  6, 11,  3,  4,  9,  7,  2, 13, 12,  0,  5, 10,
         3, 13,  4,  7, 15,  2,  8, 14, 12,  0,  1, 10,  6,  9, 11,  5,
         0, 14,  7, 11, 10,  4, 13,  1,  5,  8, 12,  6,  9,  3,  2, 15,
        13,  8, 10,  1,  3, 15,  4,  2, 11,  6,  7, 12,  0,  5, 14,  9,
    ],
    [
        10,  0,  9, 14,  6,  3, 15,  5,  1, 13, 12,  7, 11,  4,  2,  8,
        13,  7,  0,  9,  3,  4,  6, 10,  2,  8,  5, 14, 12, 11, 15,  1,
        13,  6,  4,  9,  8, 15,  3,  0, 11,  1,  2, 12,  5, 10, 14,  7,
         1, 10, 13,  0,  6,  9,  8,  7,  4, 15, 14,  3, 11,  5,  2, 12,
    ],
    [
         7, 13, 14,  3,  0,  6,  9, 10,  1,  2,  8,  5, 11, 12,  4, 15,
        13,  8, 11,  5,  6, 15,  0,  3,  4,  7,  2, 12,  1, 10, 14,  9,
        10,  6,  9,  0, 12, 11,  7, 13, 15,  1,  3, 14,  5,  2,  8,  4,
         3, 15,  0,  6, 10,  1, 13,  8,  9,  4,  5, 11, 12,  7,  2, 14,
    ],
    [
         2, 12,  4,  1,  7, 10, 11,  6,  8,  5,  3, 15, 13,  0, 14,  9,
        14, 11,  2, 12,  4,  7, 13,  1,  5,  0, 15, 10,  3,  9,  8,  6,
         4,  2,  1, 11, 10, 13,  7,  8, 15,  9, 12,  5,  6,  3,  0, 14,
        11,  8, 12,  7,  1, 14,  2, 13,  6, 15,  0,  9, 10,  4,  5,  3,
    ],
    [
        12,  1, 10, 15,  9,  2,  6,  8,  0, 13,  3,  4, 14,  7,  5, 11,
        10, 15,  4,  2,  7, 12,  9,  5,  6,  1, 13, 14,  0, 11,  3,  8,
         9, 14, 15,  5,  2,  8, 12,  3,  7,  0,  4, 10,  1, 13, 11,  6,
         4,  3,  2, 12,  9,  5, 15, 10, 11, 14,  1,  7,  6,  0,  8, 13,
    ],
    [
         4, 11,  2, 14, 15,  0,  8, 13,  3, 12,  9,  7,  5, 10,  6,  1,
        13,  0, 11,  7,  4,  9,  1, 10, 14,  3,  5, 12,  2, 15,  8,  6,
         1,  4, 11, 13, 12,  3,  7, 14, 10, 15,  6,  8,  0,  5,  9,  2,
         6, 11, 13,  8,  1,  4, 10,  7,  9,  5,  0, 15, 14,  2,  3, 12,
    ],
    [
        13,  2,  8,  4,  6, 15, 11,  1, 10,  9,  3, 14,  5,  0, 12,  7,
         1, 15, 13,  8, 10,  3,  7,  4, 12,  5,  6, 11,  0, 14,  9,  2,
         7, 11,  4,  1,  9, 12, 14,  2,  0,  6, 10, 13, 15,  3,  5,  8,
         2,  1, 14,  7,  4, 10,  8, 13, 15, 12,  9,  0,  3,  5,  6, 11,
    ],
];
