//! Seeds and findings hold, and so does what a seeded [`Mutator`] makes of them: fuzzing for who has no fuzzer.
//!
//! `FUZZ_SEEDS=folder` writes the seeds of each target there instead, as `cargo xtask fuzz` wants them.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use larder_fuzz::{Mutator, TARGETS, Target};

#[path = "../../larder/tests/it/hostile/case.rs"]
#[allow(dead_code, reason = "nobody rewrites the cases here")]
mod case;

/// How long the seeds are changed, of all targets at once. How often that is, is no claim.
const TIME: Duration = Duration::from_secs(20);
/// The longest case of other tests that is a seed: longer ones are about limits, and make a fuzzer slow.
const CASE_BYTES_MAX: usize = 4096;

#[test]
fn whatever_comes_of_the_seeds_holds() {
    if let Some(folder) = env::var_os("FUZZ_SEEDS") {
        return write_seeds(Path::new(&folder));
    }
    let end = Instant::now() + TIME;
    let threads = TARGETS.map(|(name, target)| thread::spawn(move || hold(name, target, end)));
    let failures: Vec<String> =
        threads.into_iter().filter_map(|thread| thread.join().expect("it caught all")).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Plays all seeds of a target, and then what is made of them; what does not hold, as a seed to be added.
fn hold(name: &str, target: Target, end: Instant) -> Option<String> {
    let seeds = seeds(name);
    let mut mutator = Mutator::new(name.as_bytes());
    let changed = std::iter::repeat_with(|| mutator.next(&seeds)).take_while(|_| Instant::now() < end);
    let mut all = [Vec::new()].into_iter().chain(seeds.clone()).chain(changed);
    let failed = all.find(|data| catch_unwind(|| target(data)).is_err())?;
    Some(format!("{name}: a seed for fuzz/corpus/{name}/: b\"{}\"", failed.escape_ascii()))
}

/// A target that is nowhere but in the list, or not in the list, is never run.
#[test]
fn each_target_has_a_program_and_seeds() {
    let listed = BTreeSet::from(TARGETS.map(|(name, _)| name.to_owned()));
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("it has a manifest");
    let built = manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/")?.strip_suffix(".rs\""));
    assert_eq!(built.map(str::to_owned).collect::<BTreeSet<_>>(), listed);
    let stems = |folder: &str| -> BTreeSet<String> {
        let paths = files(&fuzz().join(folder)).into_iter();
        paths.map(|path| path.file_stem().expect("it has a name").to_string_lossy().into_owned()).collect()
    };
    assert_eq!(stems("fuzz_targets"), listed);
    assert_eq!(stems("corpus"), listed);
    for name in listed {
        let program = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).expect("it reads");
        assert!(program.contains(&format!("larder_fuzz::{name}(data)")), "{program}");
        assert!(seeds(&name).len() >= 5, "{name} has {} seeds", seeds(&name).len());
        assert!(seeds(&name).iter().all(|seed| !seed.is_empty()), "{name}: nothing is played anyway");
    }
}

/// The seeds of a target: its corpus, and what the cases of other tests say that its parser reads.
fn seeds(name: &str) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = files(&fuzz().join("corpus").join(name)).iter().map(|path| read(path)).collect();
    match name {
        "request_head" => seeds.extend(hostile("requests")),
        "response_head" => seeds.extend(hostile("answers")),
        "chunked" => seeds.extend(["requests", "answers"].into_iter().flat_map(hostile).filter_map(chunks)),
        "nginx_conf" => seeds.extend(configurations("larder-conf/cases")),
        "vcl" => seeds.extend(configurations("larder-vcl/cases")),
        _ => {}
    }
    seeds
}

/// The bytes of hostile clients, or of origins.
fn hostile(folder: &str) -> Vec<Vec<u8>> {
    let folder = crates().join("larder/tests/it/hostile").join(folder);
    let cases = case::all(folder.to_str().expect("our paths are UTF-8")).into_iter();
    let bytes = cases.map(|case| {
        let text: Vec<&str> = case.text.split_inclusive('\n').filter(|line| !line.starts_with('!')).collect();
        case::bytes_of(&text.concat(), &|word| Some(word_of(word)))
    });
    bytes.filter(|bytes| (1..=CASE_BYTES_MAX).contains(&bytes.len())).collect()
}

/// What stands for a name in a case.
fn word_of(word: &str) -> Vec<u8> {
    const BODY: &[u8] = b"hello";
    match word.strip_prefix("len").map(|by| (by, by.parse::<i64>())) {
        Some(("", _)) => BODY.len().to_string().into_bytes(),
        Some((_, Ok(by))) => (BODY.len() as i64 + by).to_string().into_bytes(),
        _ if word == "body" => BODY.to_vec(),
        _ => format!("/{word}").into_bytes(),
    }
}

/// What is behind a head that says it comes in chunks.
fn chunks(message: Vec<u8>) -> Option<Vec<u8>> {
    let at = message.windows(4).position(|window| window == b"\r\n\r\n")?;
    let (head, body) = message.split_at(at + 4);
    (head.windows(7).any(|window| window == b"chunked") && !body.is_empty()).then(|| body.to_vec())
}

/// The configurations of the cases in a folder.
fn configurations(folder: &str) -> Vec<Vec<u8>> {
    let cases = files(&crates().join(folder));
    let input = |path: &PathBuf| {
        let text = String::from_utf8_lossy(&read(path)).into_owned();
        text.split_once("----\n").map_or(text.clone(), |(input, _)| input.to_owned()).into_bytes()
    };
    cases.iter().map(input).filter(|text| text.len() <= CASE_BYTES_MAX).collect()
}

/// Writes the seeds of each target to a folder of its name.
fn write_seeds(folder: &Path) {
    for (name, _) in TARGETS {
        let folder = folder.join(name);
        fs::create_dir_all(&folder).expect("a folder can be made");
        for (number, seed) in seeds(name).iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:04}")), seed).expect("a seed can be written");
        }
    }
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn fuzz() -> PathBuf {
    crates().join("../fuzz")
}

/// What is in a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder reads").path()).collect();
    paths.sort();
    paths
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
}
