//! `-f`, `-I` and `-X`: which counters are meant.

use larder_vcl::functions::wildcard::{self, Rules};

/// The globs of a command line, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter(Vec<Glob>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Glob {
    pattern: String,
    is_wanted: bool,
}

impl Filter {
    /// `-I GLOB`
    pub fn include(&mut self, pattern: &str) {
        self.0.push(Glob { pattern: pattern.to_owned(), is_wanted: true });
    }

    /// `-X GLOB`
    pub fn exclude(&mut self, pattern: &str) {
        self.0.push(Glob { pattern: pattern.to_owned(), is_wanted: false });
    }

    /// `-f GLOB`, and `-f ^GLOB` for what is not meant.
    pub fn field(&mut self, pattern: &str) {
        match pattern.strip_prefix('^') {
            Some(pattern) => self.exclude(pattern),
            None => self.include(pattern),
        }
    }

    /// Whether a counter is meant. The first glob that matches its name decides; if none does, it is meant unless some
    /// globs say what is.
    pub fn takes(&self, name: &str) -> bool {
        let rules = Rules { pathname: false, noescape: false, period: false };
        let matches = |glob: &&Glob| wildcard::matches(glob.pattern.as_bytes(), name.as_bytes(), rules);
        match self.0.iter().find(matches) {
            Some(glob) => glob.is_wanted,
            None => self.0.iter().all(|glob| !glob.is_wanted),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As varnishstat 7.1 answers.
    #[test]
    fn the_first_glob_that_matches_decides() {
        for (globs, name, expected) in [
            ("", "MAIN.cache_hit", true),
            ("-f MAIN.*", "MAIN.cache_hit", true),
            ("-f MAIN.*", "MGT.uptime", false),
            ("-f ^MAIN.*", "MAIN.cache_hit", false),
            ("-f ^MAIN.*", "MGT.uptime", true),
            ("-f ^MAIN.sess_d* -f MAIN.sess_*", "MAIN.sess_dropped", false),
            ("-f ^MAIN.sess_d* -f MAIN.sess_*", "MAIN.sess_conn", true),
            ("-f ^MAIN.sess_d* -f MAIN.sess_*", "MGT.uptime", false),
            ("-X MAIN.sess_d* -I MAIN.sess_*", "MAIN.sess_dropped", false),
            ("-I MAIN.sess_* -X *_d*", "MAIN.sess_dropped", true),
            ("-I MAIN.sess_c[a-l]* -I MGT.*time", "MAIN.sess_closed", true),
            ("-I MAIN.sess_c[a-l]* -I MGT.*time", "MAIN.sess_conn", false),
            ("-I VBE.*.default.h?ppy", "VBE.boot.default.happy", true),
            ("-I sess_conn", "MAIN.sess_conn", false),
            ("-I main.sess_conn", "MAIN.sess_conn", false),
            ("-X ^MAIN.*", "MAIN.sess_conn", true),
        ] {
            let mut filter = Filter::default();
            for pair in globs.split_whitespace().collect::<Vec<_>>().chunks(2) {
                match pair[0] {
                    "-f" => filter.field(pair[1]),
                    "-I" => filter.include(pair[1]),
                    _ => filter.exclude(pair[1]),
                }
            }
            assert_eq!(filter.takes(name), expected, "{globs}: {name}");
        }
    }
}
