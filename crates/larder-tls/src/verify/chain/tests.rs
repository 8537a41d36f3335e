use super::super::{CRL_EXPIRED, EXPIRED, NO_CRL, NO_ISSUER, SELF_SIGNED, SELF_SIGNED_IN_CHAIN};
use super::*;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};

const NOW_SECS: i64 = 1_750_000_000;
const OVER: [&str; 2] = ["200101000000Z", "210101000000Z"];
const NOW: [&str; 2] = ["200101000000Z", "400101000000Z"];

const SEQUENCE: u8 = 0x30;
const AUTHORITY: &[u8] = &[0x30, 12, 6, 3, 0x55, 0x1d, 19, 4, 5, 0x30, 3, 1, 1, 0xff];
/// Permitted: `.test`.
const CONSTRAINTS: &[u8] =
    &[0x30, 18, 6, 3, 0x55, 0x1d, 30, 4, 11, 0x30, 9, 0xa0, 7, 0x30, 5, 0x82, 3, b'a', b'.', b'b'];
/// Client authentication; server authentication.
const FOR_CLIENTS: &[u8] = &[0x30, 19, 6, 3, 0x55, 0x1d, 37, 4, 12, 0x30, 10, 6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 2];
const FOR_SERVERS: &[u8] = &[0x30, 19, 6, 3, 0x55, 0x1d, 37, 4, 12, 0x30, 10, 6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 1];
const UNKNOWN: &[u8] = &[0x30, 11, 6, 3, 0x55, 0x1d, 99, 1, 1, 0xff, 4, 1, 0];

/// Who signs.
struct Signer {
    name: &'static str,
    key: EcdsaKeyPair,
}

fn signer(name: &'static str) -> Signer {
    Signer { name, key: EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key can be made") }
}

fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = match content.len() {
        short @ ..0x80 => vec![short as u8],
        long @ ..0x100 => vec![0x81, long as u8],
        long => vec![0x82, (long >> 8) as u8, long as u8],
    };
    [&[tag], &length[..], &content].concat()
}

fn name(text: &str) -> Vec<u8> {
    let attribute = der(SEQUENCE, &[&[6, 3, 0x55, 4, 3], &der(12, &[text.as_bytes()])]);
    der(SEQUENCE, &[&der(0x31, &[&attribute])])
}

/// A certificate: of version 1 without extensions.
fn certificate(own: &Signer, by: &Signer, serial: u8, dates: [&str; 2], extensions: &[&[u8]]) -> Vec<u8> {
    let version = if extensions.is_empty() { Vec::new() } else { vec![0xa0, 3, 2, 1, 2] };
    let more = match extensions {
        [] => Vec::new(),
        some => der(0xa3, &[&der(SEQUENCE, some)]),
    };
    let dates = der(SEQUENCE, &[&der(23, &[dates[0].as_bytes()]), &der(23, &[dates[1].as_bytes()])]);
    let curve =
        der(SEQUENCE, &[&[6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1], &[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7]]);
    let key = der(SEQUENCE, &[&curve, &der(3, &[&[0], own.key.public_key().as_ref()])]);
    signed(by, &[&version, &[2, 1, serial], &algorithm(), &name(by.name), &dates, &name(own.name), &key, &more])
}

/// A revocation list of version 1.
fn list(by: &Signer, dates: [&str; 2], serials: &[u8]) -> Vec<u8> {
    let entries = serials.iter().map(|serial| der(SEQUENCE, &[&[2, 1, *serial], &der(23, &[NOW[0].as_bytes()])]));
    let entries = der(SEQUENCE, &[&entries.collect::<Vec<_>>().concat()]);
    let (from, to) = (der(23, &[dates[0].as_bytes()]), der(23, &[dates[1].as_bytes()]));
    signed(by, &[&algorithm(), &name(by.name), &from, &to, if serials.is_empty() { &[] } else { &entries }])
}

fn algorithm() -> Vec<u8> {
    der(SEQUENCE, &[&[6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2]])
}

fn signed(by: &Signer, parts: &[&[u8]]) -> Vec<u8> {
    let signed = der(SEQUENCE, parts);
    let signature = by.key.sign(&SystemRandom::new(), &signed).expect("the key can sign");
    der(SEQUENCE, &[&signed, &algorithm(), &der(3, &[&[0], signature.as_ref()])])
}

fn judged(trusted: &[&[u8]], lists: &[&[u8]], depth: usize, chain: &[&[u8]]) -> Verdict {
    let owned = |list: &[&[u8]]| list.iter().map(|der| der.to_vec()).collect::<Vec<_>>();
    let (trusted, revocation_lists) = (owned(trusted), owned(lists));
    let judge = Judge {
        trusted: &trusted,
        revocation_lists: &revocation_lists,
        depth,
        purpose: Purpose::Client,
        now_secs: NOW_SECS,
    };
    let others: Vec<CertificateDer<'_>> = chain[1..].iter().map(|der| CertificateDer::from(*der)).collect();
    judge.check(chain[0], &others)
}

#[test]
fn chains_are_judged_as_by_openssl() {
    let (root, between, anna, other) = (signer("root"), signer("between"), signer("anna"), signer("root"));
    let old_root = certificate(&root, &root, 1, NOW, &[]);
    let new_root = certificate(&root, &root, 1, NOW, &[AUTHORITY]);
    let stranger = certificate(&other, &other, 9, NOW, &[]);
    let by_root = certificate(&anna, &root, 2, NOW, &[]);
    let by_between = certificate(&anna, &between, 2, NOW, &[]);
    let old_between = certificate(&between, &root, 3, NOW, &[]);
    let new_between = certificate(&between, &root, 3, NOW, &[AUTHORITY]);
    let narrow_between = certificate(&between, &root, 3, NOW, &[AUTHORITY, CONSTRAINTS]);
    let alone = certificate(&anna, &anna, 4, NOW, &[]);
    let of = |extensions: &[&[u8]]| certificate(&anna, &root, 2, NOW, extensions);
    for (case, trusted, depth, chain, verdict) in [
        ("one that trusts itself", vec![&alone], 1, vec![&alone], Ok(())),
        ("an old root", vec![&old_root], 0, vec![&by_root], Ok(())),
        ("an authority as a client", vec![&new_root], 0, vec![&of(&[AUTHORITY])], Ok(())),
        ("between, and sent", vec![&new_root], 1, vec![&by_between, &new_between], Ok(())),
        ("between, and known", vec![&new_root, &new_between], 1, vec![&by_between], Ok(())),
        (
            "between, and too deep",
            vec![&new_root],
            0,
            vec![&by_between, &new_between],
            Err("certificate chain too long"),
        ),
        ("an old one between", vec![&new_root], 1, vec![&by_between, &old_between], Err("invalid CA certificate")),
        ("names in bounds", vec![&new_root], 1, vec![&by_between, &narrow_between], Err("permitted subtree violation")),
        ("nobody", vec![&stranger], 1, vec![&by_between], Err(FIRST_UNVERIFIED)),
        ("nobody above", vec![&alone], 1, vec![&by_between, &new_between], Err(NO_ISSUER)),
        ("alone", vec![&old_root], 1, vec![&alone], Err(SELF_SIGNED)),
        ("a root that is sent", vec![&alone], 1, vec![&by_root, &old_root], Err(SELF_SIGNED_IN_CHAIN)),
        ("the name of a root", vec![&stranger], 1, vec![&by_root], Err("certificate signature failure")),
        ("over", vec![&old_root], 1, vec![&certificate(&anna, &root, 2, OVER, &[])], Err(EXPIRED)),
        ("for clients", vec![&old_root], 1, vec![&of(&[FOR_CLIENTS])], Ok(())),
        ("for servers", vec![&old_root], 1, vec![&of(&[FOR_SERVERS])], Err("unsuitable certificate purpose")),
        ("who knows what for", vec![&old_root], 1, vec![&of(&[UNKNOWN])], Err("unhandled critical extension")),
        ("no certificate", vec![&old_root], 1, vec![&vec![0x30, 0]], Err(UNREADABLE)),
    ] {
        let trusted: Vec<&[u8]> = trusted.into_iter().map(Vec::as_slice).collect();
        let chain: Vec<&[u8]> = chain.into_iter().map(Vec::as_slice).collect();
        assert_eq!(judged(&trusted, &[], depth, &chain), verdict, "{case}");
    }
}

#[test]
fn lists_of_version_1_revoke() {
    let (root, anna, other) = (signer("root"), signer("anna"), signer("root"));
    let (authority, leaf) = (certificate(&root, &root, 1, NOW, &[]), certificate(&anna, &root, 2, NOW, &[]));
    for (case, lists, verdict) in [
        ("none revoked", vec![list(&root, NOW, &[])], Ok(())),
        ("another revoked", vec![list(&root, NOW, &[7])], Ok(())),
        ("revoked", vec![list(&root, NOW, &[7, 2])], Err("certificate revoked")),
        ("revoked in one of them", vec![list(&root, NOW, &[7]), list(&root, NOW, &[2])], Err("certificate revoked")),
        ("over", vec![list(&root, OVER, &[])], Err(CRL_EXPIRED)),
        ("of another issuer", vec![list(&anna, NOW, &[])], Err(NO_CRL)),
        ("of another key", vec![list(&other, NOW, &[])], Err("CRL signature failure")),
    ] {
        let lists: Vec<&[u8]> = lists.iter().map(Vec::as_slice).collect();
        assert_eq!(judged(&[&authority], &lists, 1, &[&leaf]), verdict, "{case}");
    }
}
