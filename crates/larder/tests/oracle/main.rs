//! The oracle: the same configuration, the same requests, once to nginx and once to larder; what differs is a failure.
//!
//! A case is a file in `conformance/nginx/cases/AREA/`; its format is described in [`case`]. Both servers run one
//! after the other in the same folder, on the same ports, before the same scripted origins, so that their answers
//! can be compared byte by byte: [`compare`] lists what is not compared. `conformance/nginx/differences.list` names
//! the cases that are known to differ, each with its reason; one that no longer differs must leave the list.
//!
//! Environment:
//! - `ORACLE_CASES=cache/,static/range`: only cases whose names contain one of these.
//! - `ORACLE_SHOW=1`: prints what nginx answered.
//! - `ORACLE_UPDATE=1`: writes nginx's answers in short into the section `nginx says` of each case.
//! - `ORACLE_SUBJECT=/path`: compares this binary instead of larder (nginx itself must differ nowhere).
//! - `ORACLE_NGINX=/path`: the nginx to compare with, `/usr/sbin/nginx` unless told; the corpus fits 1.22.
//! - `ORACLE_CORPUS=/path`: a corpus elsewhere than in `conformance/nginx`.
//! - `ORACLE_THREADS=2`: how many cases run at once.
#![forbid(unsafe_code)]

mod case;
mod compare;
mod date;
mod frame;
mod list;
mod play;
mod script;
mod transcript;
mod vcl;

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use case::Case;
use list::Differences;

/// A case that takes longer is named, so that the run stays short.
const SLOW: Duration = Duration::from_secs(8);

/// What became of one case.
enum Verdict {
    Equal,
    Differs(String),
    /// The case itself is wrong: it cannot be read or played, or nginx does not say what the case states.
    Broken(String),
}

#[test]
fn larder_answers_as_nginx_does() {
    let nginx = PathBuf::from(env::var("ORACLE_NGINX").unwrap_or_else(|_| "/usr/sbin/nginx".to_owned()));
    let subject = env::var("ORACLE_SUBJECT").ok().or(option_env!("CARGO_BIN_EXE_larder").map(str::to_owned));
    let subject = PathBuf::from(subject.expect("cargo names the binary, or ORACLE_SUBJECT does"));
    if !nginx.exists() {
        assert!(env::var("ORACLE_NGINX").is_err(), "{} does not exist", nginx.display());
        println!("there is no nginx here, so there is nothing to compare with");
        return;
    }
    let corpus = env::var_os("ORACLE_CORPUS").unwrap_or_else(|| "../../conformance/nginx".into());
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join(corpus);
    let cases = chosen_cases(&corpus.join("cases"));
    let verdicts = judge_all(&cases, &nginx, &subject);
    report(&cases, &verdicts, &corpus.join("differences.list"));
}

/// The case files that `ORACLE_CASES` asks for, by name.
fn chosen_cases(folder: &Path) -> Vec<(String, PathBuf)> {
    let wanted = env::var("ORACLE_CASES").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split(',').filter(|word| !word.is_empty()).collect();
    let mut cases = Vec::new();
    for area in sorted_entries(folder).expect("the corpus is there") {
        for path in sorted_entries(&area).unwrap_or_default() {
            if path.extension().is_none_or(|extension| extension != "case") {
                continue;
            }
            let name = path.strip_prefix(folder).unwrap_or(&path).with_extension("").display().to_string();
            if wanted.is_empty() || wanted.iter().any(|word| name.contains(word)) {
                cases.push((name, path));
            }
        }
    }
    assert!(!cases.is_empty(), "no case is named like {wanted:?}");
    cases
}

fn sorted_entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
}

/// Judges all cases on a few threads: they mostly wait.
fn judge_all(cases: &[(String, PathBuf)], nginx: &Path, subject: &Path) -> Vec<Verdict> {
    on_threads(cases, |(name, path)| {
        let begun = Instant::now();
        let verdict = judge(name, path, nginx, subject);
        if begun.elapsed() > SLOW {
            println!("{name} took {:.1} s", begun.elapsed().as_secs_f64());
        }
        verdict
    })
}

/// What `judge` says of each case, in order, on a few threads.
fn on_threads<C: Sync, V: Send>(cases: &[C], judge: impl Fn(&C) -> V + Sync) -> Vec<V> {
    let threads = env::var("ORACLE_THREADS").ok().and_then(|count| count.parse().ok()).unwrap_or(2);
    let next = AtomicUsize::new(0);
    let verdicts = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(at) else { return };
                    let verdict = judge(case);
                    verdicts.lock().expect("no judge panics with the lock").push((at, verdict));
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().expect("no judge panics with the lock");
    verdicts.sort_by_key(|(at, _)| *at);
    verdicts.into_iter().map(|(_, verdict)| verdict).collect()
}

fn judge(name: &str, path: &Path, nginx: &Path, subject: &Path) -> Verdict {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => return Verdict::Broken(error.to_string()),
    };
    let case = match Case::parse(&text) {
        Ok(case) => case,
        Err(error) => return Verdict::Broken(error),
    };
    let stage = match play::Stage::set(&case) {
        Ok(stage) => stage,
        Err(error) => return Verdict::Broken(error.to_string()),
    };
    let reference = match stage.play(&case, nginx) {
        Ok(transcript) => transcript,
        Err(error) => return Verdict::Broken(format!("with nginx: {error}")),
    };
    if env::var_os("ORACLE_SHOW").is_some() {
        let refusal = reference.refusal.as_deref().unwrap_or_default();
        println!("==== {name}: {}\n{}{refusal}", case.about, compare::show(&reference, &case.rules));
    }
    let says = reference.in_short();
    if env::var_os("ORACLE_UPDATE").is_some() {
        if let Err(error) = fs::write(path, case::with_nginx_says(&text, &says)) {
            return Verdict::Broken(error.to_string());
        }
    } else if says != case.nginx_says {
        return Verdict::Broken(format!("nginx says\n{says}and the case states\n{}", case.nginx_says));
    }
    match stage.play(&case, subject) {
        Ok(answered) => match compare::differences(&reference, &answered, &case.rules) {
            None => Verdict::Equal,
            Some(difference) => Verdict::Differs(difference),
        },
        Err(error) => Verdict::Differs(format!("{error}\n")),
    }
}

fn report(cases: &[(String, PathBuf)], verdicts: &[Verdict], list: &Path) {
    let differences = Differences::read(list).expect("differences.list can be read");
    let (mut equal, mut known, mut failures) = (0, 0, 0);
    for ((name, path), verdict) in cases.iter().zip(verdicts) {
        match (verdict, differences.reason(name)) {
            (Verdict::Equal, None) => equal += 1,
            (Verdict::Differs(_), Some(_)) => known += 1,
            (Verdict::Equal, Some(reason)) => {
                failures += 1;
                println!("==== {name}: equal now; take it off the list, where it says: {reason}");
            }
            (Verdict::Differs(difference), None) => {
                failures += 1;
                println!("==== {name} differs (- nginx, + ours), {}\n{difference}", path.display());
            }
            (Verdict::Broken(reason), _) => {
                failures += 1;
                println!("==== {name} is broken, {}\n{reason}", path.display());
            }
        }
    }
    for name in differences.names() {
        if env::var_os("ORACLE_CASES").is_none() && !cases.iter().any(|(case, _)| case == name) {
            failures += 1;
            println!("==== {name}: on the list, and no such case");
        }
    }
    println!("{} cases: {equal} equal, {known} known to differ, {failures} failures", cases.len());
    assert_eq!(failures, 0, "see above");
}
