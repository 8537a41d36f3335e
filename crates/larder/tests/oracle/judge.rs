//! A contest: each case of a corpus is played before two programs, and what differs is told.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::case::{self, Case};
use crate::compare;
use crate::list::Differences;
use crate::play;
use crate::program::Program;

/// A case that takes longer is named, so that the run stays short.
const SLOW: Duration = Duration::from_secs(8);

/// What became of one case.
enum Verdict {
    Equal,
    Differs(String),
    /// The case itself is wrong: it cannot be read or played, or nginx does not say what the case states.
    Broken(String),
}

/// Two programs and what is played before them.
pub struct Contest {
    /// What the one is called that is right: `nginx` or `varnishd`.
    pub measure: &'static str,
    /// That one.
    pub reference: Program,
    /// The one that is compared with it.
    pub subject: Program,
    /// A folder with areas, folders of cases.
    pub cases: PathBuf,
    /// The list of the cases that are known to differ.
    pub differences: PathBuf,
}

impl Contest {
    /// Judges the cases that `ORACLE_CASES` asks for; fails if one differs that is not on the list.
    pub fn run(&self) {
        let cases = chosen_cases(&self.cases);
        // Another corpus may have what `ORACLE_CASES` asks for.
        assert!(!cases.is_empty() || env::var_os("ORACLE_CASES").is_some(), "there are no cases");
        let verdicts = self.judge_all(&cases);
        self.report(&cases, &verdicts);
    }

    /// Judges all cases on a few threads: they mostly wait.
    fn judge_all(&self, cases: &[(String, PathBuf)]) -> Vec<Verdict> {
        on_threads(cases, |(name, path)| {
            let begun = Instant::now();
            let verdict = self.judge(name, path);
            if begun.elapsed() > SLOW {
                println!("{name} took {:.1} s", begun.elapsed().as_secs_f64());
            }
            verdict
        })
    }

    fn judge(&self, name: &str, path: &Path) -> Verdict {
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
        let reference = match stage.play(&case, &self.reference) {
            Ok(transcript) => transcript,
            Err(error) => return Verdict::Broken(format!("with {}: {error}", self.measure)),
        };
        if env::var_os("ORACLE_SHOW").is_some() {
            let refusal = reference.refusal.as_deref().unwrap_or_default();
            println!("==== {name}: {}\n{}{refusal}", case.about, compare::show(&reference, &case.rules));
        }
        let says = reference.in_short();
        if env::var_os("ORACLE_UPDATE").is_some() {
            if let Err(error) = fs::write(path, case::with_answers(&text, self.measure, &says)) {
                return Verdict::Broken(error.to_string());
            }
        } else if says != case.says {
            return Verdict::Broken(format!("{} says\n{says}and the case states\n{}", self.measure, case.says));
        }
        match stage.play(&case, &self.subject) {
            Ok(answered) => match compare::differences(&reference, &answered, &case.rules) {
                None => Verdict::Equal,
                Some(difference) => Verdict::Differs(difference),
            },
            Err(error) => Verdict::Differs(format!("{error}\n")),
        }
    }

    fn report(&self, cases: &[(String, PathBuf)], verdicts: &[Verdict]) {
        let differences = Differences::read(&self.differences).expect("differences.list can be read");
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
                    println!("==== {name} differs (- {}, + ours), {}\n{difference}", self.measure, path.display());
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
        println!(
            "{}: {} cases: {equal} equal, {known} known to differ, {failures} failures",
            self.measure,
            cases.len()
        );
        assert_eq!(failures, 0, "see above");
    }
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
    cases
}

/// What is in a folder, by name.
pub fn sorted_entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    Ok(paths)
}

/// What `judge` says of each case, in order, on a few threads.
pub fn on_threads<C: Sync, V: Send>(cases: &[C], judge: impl Fn(&C) -> V + Sync) -> Vec<V> {
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
