//! `ssl_ciphers`: OpenSSL's cipher strings (its ciphers(1)), for the suites rustls has.
//!
//! As with OpenSSL the string decides about TLS 1.2 only; the suites of TLS 1.3 stay as they are.

use crate::error::{Notice, TlsError};
use crate::names;
use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite as suite;

/// The suites of TLS 1.2 in OpenSSL's order, with what its words match.
const SUITES: [Suite; 6] = [
    Suite { suite: suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, is_ecdsa: true, cipher: Cipher::Aes256 },
    Suite { suite: suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, is_ecdsa: false, cipher: Cipher::Aes256 },
    Suite { suite: suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, is_ecdsa: true, cipher: Cipher::Chacha20 },
    Suite { suite: suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, is_ecdsa: false, cipher: Cipher::Chacha20 },
    Suite { suite: suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, is_ecdsa: true, cipher: Cipher::Aes128 },
    Suite { suite: suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, is_ecdsa: false, cipher: Cipher::Aes128 },
];

const TLS13: [SupportedCipherSuite; 3] =
    [suite::TLS13_AES_256_GCM_SHA384, suite::TLS13_CHACHA20_POLY1305_SHA256, suite::TLS13_AES_128_GCM_SHA256];

struct Suite {
    suite: SupportedCipherSuite,
    is_ecdsa: bool,
    cipher: Cipher,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Cipher {
    Aes128,
    Aes256,
    Chacha20,
}

/// The suites of a configuration, most wanted first: those of TLS 1.3, then what `text` leaves of TLS 1.2.
///
/// `text` is `ssl_ciphers`, `tls13` is `ssl_conf_command Ciphersuites`; `None` stands for nginx's `HIGH:!aNULL:!MD5`
/// and for all. `needs_tls12` says that TLS 1.2 is among the protocols, so that a string that leaves it nothing is an error.
pub(crate) fn suites(
    text: Option<&str>,
    tls13: Option<&str>,
    needs_tls12: bool,
    directive: &'static str,
    notices: &mut Vec<Notice>,
) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let mut suites = match tls13 {
        None => TLS13.to_vec(),
        Some(names) => named_tls13(names)?,
    };
    let Some(text) = text else {
        suites.extend(SUITES.iter().map(|suite| suite.suite));
        return Ok(suites);
    };
    let (chosen, dropped) = choose(text);
    if chosen.is_empty() && needs_tls12 {
        return Err(TlsError::NoCipher(text.into()));
    }
    if !dropped.is_empty() {
        let text = format!("{} dropped, not offered by this TLS library", dropped.join(", "));
        notices.push(Notice { directive, text });
    }
    suites.extend(chosen.into_iter().map(|index| SUITES[index].suite));
    Ok(suites)
}

fn named_tls13(names: &str) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let mut suites: Vec<SupportedCipherSuite> = Vec::new();
    for name in names.split([':', ' ', ',']) {
        let number = names::cipher_number(name);
        let known = TLS13.iter().find(|suite| Some(u16::from(suite.suite())) == number);
        if let Some(suite) = known.filter(|suite| !suites.contains(suite)) {
            suites.push(*suite);
        }
    }
    if suites.is_empty() { Err(TlsError::NoCipher(names.into())) } else { Ok(suites) }
}

/// Indices into [`SUITES`], in order, and the words that ask for what is not there.
fn choose(text: &str) -> (Vec<usize>, Vec<&str>) {
    let mut chosen: Vec<usize> = Vec::new();
    let mut killed = [false; SUITES.len()];
    let mut dropped: Vec<&str> = Vec::new();
    for word in text.split([':', ' ', ',', ';']).filter(|word| !word.is_empty()) {
        if let Some(command) = word.strip_prefix('@') {
            if command.eq_ignore_ascii_case("STRENGTH") {
                chosen.sort_by_key(|index| SUITES[*index].cipher == Cipher::Aes128);
            }
            continue; // @SECLEVEL speaks of keys and hashes that are never weak here
        }
        let (operator, name) = match word.as_bytes()[0] {
            b'!' | b'-' | b'+' => word.split_at(1),
            _ => ("", word),
        };
        let matched: Vec<usize> = (0..SUITES.len()).filter(|index| SUITES[*index].matches(name)).collect();
        match operator {
            "!" => {
                for index in &matched {
                    killed[*index] = true;
                }
                chosen.retain(|index| !killed[*index]);
            }
            "-" => chosen.retain(|index| !matched.contains(index)),
            "+" => {
                let (moved, stay): (Vec<usize>, Vec<usize>) = chosen.iter().partition(|index| matched.contains(index));
                chosen = stay;
                chosen.extend(moved);
            }
            _ if matched.is_empty() => {
                if !is_tls13(name) && !dropped.contains(&name) {
                    dropped.push(name);
                }
            }
            _ => {
                for index in matched {
                    if !killed[index] && !chosen.contains(&index) {
                        chosen.push(index);
                    }
                }
            }
        }
    }
    (chosen, dropped)
}

fn is_tls13(name: &str) -> bool {
    names::cipher_number(name).is_some_and(|number| number >> 8 == 0x13)
}

impl Suite {
    /// Whether `words`, joined by `+`, all match.
    fn matches(&self, words: &str) -> bool {
        names::cipher_number(words).is_some_and(|number| number == u16::from(self.suite.suite()))
            || words.split('+').all(|word| self.matches_word(word))
    }

    fn matches_word(&self, word: &str) -> bool {
        let word = word.to_ascii_uppercase();
        match word.as_str() {
            "ALL" | "DEFAULT" | "HIGH" | "PROFILE=SYSTEM" | "TLSV1.2" | "AEAD" => true,
            "ECDHE" | "EECDH" | "KECDHE" | "KEECDH" | "ECDH" => true,
            "ECDSA" | "AECDSA" => self.is_ecdsa,
            "ARSA" => !self.is_ecdsa,
            "AES" | "AESGCM" | "FIPS" => self.cipher != Cipher::Chacha20,
            "AES128" => self.cipher == Cipher::Aes128,
            "AES256" => self.cipher == Cipher::Aes256,
            "CHACHA20" => self.cipher == Cipher::Chacha20,
            "SUITEB128" => self.is_ecdsa && self.cipher != Cipher::Chacha20,
            "SUITEB128ONLY" => self.is_ecdsa && self.cipher == Cipher::Aes128,
            "SUITEB192" => self.is_ecdsa && self.cipher == Cipher::Aes256,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(index: usize) -> String {
        let suite = &SUITES[index];
        let cipher = match suite.cipher {
            Cipher::Aes128 => "128",
            Cipher::Aes256 => "256",
            Cipher::Chacha20 => "cc",
        };
        format!("{}{cipher}", if suite.is_ecdsa { "e" } else { "r" })
    }

    #[test]
    fn a_cipher_string_chooses_as_openssl_does() {
        for (text, chosen, dropped) in [
            ("HIGH:!aNULL:!MD5", "e256 r256 ecc rcc e128 r128", ""),
            ("DEFAULT", "e256 r256 ecc rcc e128 r128", ""),
            ("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384", "r128 e256", ""),
            ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "r128", ""),
            ("EECDH+AESGCM:EDH+AESGCM", "e256 r256 e128 r128", "EDH+AESGCM"),
            ("ECDHE+CHACHA20:ECDHE+AESGCM:!ECDSA", "rcc r256 r128", ""),
            ("ALL:-AES256:AES256", "ecc rcc e128 r128 e256 r256", ""),
            ("ALL:!AES256:AES256", "ecc rcc e128 r128", ""),
            ("ALL:+CHACHA20", "e256 r256 e128 r128 ecc rcc", ""),
            ("AES128:aECDSA:@STRENGTH", "e256 ecc e128 r128", ""),
            ("kEECDH+aRSA+AES256", "r256", ""),
            (
                "DHE-RSA-AES256-SHA:ECDHE-RSA-AES256-SHA384:ECDHE-RSA-AES256-GCM-SHA384",
                "r256",
                "DHE-RSA-AES256-SHA ECDHE-RSA-AES256-SHA384",
            ),
            ("TLS_AES_128_GCM_SHA256:HIGH:!ECDSA", "r256 rcc r128", ""),
            ("PROFILE=SYSTEM", "e256 r256 ecc rcc e128 r128", ""),
            ("HIGH, !CHACHA20 !AES256", "e128 r128", ""),
            ("RC4:!x:nonsense", "", "RC4 nonsense"),
            ("", "", ""),
            ("@STRENGTH:+:!:-", "", ""),
        ] {
            let (indices, words) = choose(text);
            assert_eq!(indices.into_iter().map(short).collect::<Vec<_>>().join(" "), chosen, "{text}");
            assert_eq!(words.join(" "), dropped, "{text}");
        }
    }

    #[test]
    fn nothing_left_for_tls_1_2_is_an_error_only_where_it_is_spoken() {
        let mut notices = Vec::new();
        assert!(suites(Some("RC4"), None, true, "ssl_ciphers", &mut notices).is_err());
        assert_eq!(suites(Some("RC4"), None, false, "ssl_ciphers", &mut notices).unwrap().len(), 3);
        assert_eq!(suites(None, Some("TLS_AES_128_GCM_SHA256"), true, "ssl_ciphers", &mut notices).unwrap().len(), 7);
        assert!(suites(None, Some("TLS_AES_128_CCM_SHA256"), true, "ssl_ciphers", &mut notices).is_err());
    }
}
