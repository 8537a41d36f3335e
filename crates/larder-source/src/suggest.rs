//! "Did you mean ...": finds the most similar of many names.

/// The name nearest to `word`, when one is near enough to have been meant. The first of equals wins.
pub fn nearest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const WORD_BYTES_MAX: usize = 64;
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let word = word.to_ascii_lowercase();
    let length = word.chars().count();
    let distance_max = match length {
        0 | 1 => return None,
        _ => (length / 3).clamp(1, 3),
    };
    let mut best: Option<(usize, &str)> = None;
    // So many letters have to be added or dropped at least.
    for name in names.filter(|name| name.chars().count().abs_diff(length) <= distance_max) {
        let distance = distance(&word, &name.to_ascii_lowercase());
        if distance <= distance_max && best.is_none_or(|(known, _)| distance < known) {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

/// How many letters have to be added, dropped, changed or swapped with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<_>>(), vec![0; b.len() + 1]];
    for i in 1..=a.len() {
        // rows[0], rows[1] and rows[2] are those of i-2, i-1 and i.
        rows[2][0] = i;
        for j in 1..=b.len() {
            let changed = rows[1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[1][j] + 1).min(rows[2][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[0][j - 2] + 1);
            }
            rows[2][j] = least;
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_found_and_a_far_one_is_not() {
        let names = ["fastcgi_cache", "fastcgi_cache_key", "listen", "root", "return", "WORDPRESS"];
        for (word, expected) in [
            ("fastcgi_cach", Some("fastcgi_cache")),
            ("fastcgi_cahce", Some("fastcgi_cache")),
            ("Listen", Some("listen")),
            ("lisetn", Some("listen")),
            ("rot", Some("root")),
            ("retrun", Some("return")),
            ("WORDPRES", Some("WORDPRESS")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, names.into_iter()), expected, "{word}");
        }
    }

    #[test]
    fn distances_count_swaps_as_one() {
        for (a, b, expected) in
            [("", "", 0), ("a", "", 1), ("ab", "ba", 1), ("kitten", "sitting", 3), ("abc", "abc", 0)]
        {
            assert_eq!(distance(a, b), expected, "{a} {b}");
        }
    }
}
