//! What larder knows of applications: a text a profile in `profiles/`, and how several become one.
//!
//! `docs/profiles.md` says what the rows mean.

mod read;

use std::sync::{Arc, LazyLock};

use crate::diagnostic::Diagnostic;
use crate::model::Profile;
use crate::span::Span;
use crate::suggest;

pub use read::{Written, read};

/// A profile of ours.
#[derive(Debug)]
pub struct BuiltIn {
    /// Its name.
    pub name: &'static str,
    /// Its text, for people.
    pub text: &'static str,
    /// The same as it is read.
    pub written: Written,
}

/// The profiles of ours, each behind those that it goes with.
pub fn built_in() -> &'static [BuiltIn] {
    static ALL: LazyLock<Vec<BuiltIn>> = LazyLock::new(|| {
        let read = |&(name, text): &(&'static str, &'static str)| {
            let mut wrong = Vec::new();
            let written = read(text, Span::NOWHERE.file, &format!("{name}.profile"), &mut wrong);
            assert!(wrong.is_empty(), "{name}.profile is well-formed, which a test has seen: {wrong:?}");
            BuiltIn { name, text, written }
        };
        TEXTS.iter().map(read).collect()
    });
    &ALL
}

/// The one of that name.
pub fn find(name: &str) -> Option<&'static BuiltIn> {
    built_in().iter().find(|known| known.name == name)
}

/// The names, as messages list them.
pub fn names() -> String {
    TEXTS.map(|(name, _)| name).join(", ")
}

/// A profile of ours with all that it goes with.
pub fn known(known: &'static BuiltIn) -> Profile {
    made(known.name, &known.written, &mut Vec::new())
}

/// What is written in a file. What is wrong with its `with` goes to `wrong`.
pub fn own(path: &str, written: &Written, wrong: &mut Vec<Diagnostic>) -> Profile {
    made(path, written, wrong)
}

fn made(name: &str, written: &Written, wrong: &mut Vec<Diagnostic>) -> Profile {
    let mut parts = Vec::new();
    gather(written, &mut parts, wrong);
    let mut profile = Profile { name: name.to_owned(), ..Profile::default() };
    parts.iter().for_each(|part| take(&mut profile, part));
    take(&mut profile, written);
    profile
}

/// Gathers what a profile goes with, each once. It ends, as ours go with earlier ones only.
fn gather(written: &Written, parts: &mut Vec<&'static Written>, wrong: &mut Vec<Diagnostic>) {
    for (name, span) in &written.with {
        let Some(known) = find(name) else {
            wrong.push(*unknown(name, *span));
            continue;
        };
        gather(&known.written, parts, wrong);
        if !parts.iter().any(|part| std::ptr::eq(*part, &known.written)) {
            parts.push(&known.written);
        }
    }
}

fn take(profile: &mut Profile, written: &Written) {
    profile.rows.extend_from_slice(&written.rows);
    profile.only_static |= written.only_static;
    profile.tags.extend_from_slice(&written.tags);
    profile.purge.extend_from_slice(&written.purge);
}

/// That there is no profile of that name.
pub fn unknown(name: &str, span: Span) -> Box<Diagnostic> {
    let near = suggest::nearest(name, TEXTS.iter().map(|(name, _)| *name));
    let near = near.map_or_else(String::new, |near| format!("did you mean \"{near}\"? "));
    Diagnostic::error(format!("unknown profile \"{name}\""))
        .at(span)
        .help(format!("{near}there are {}; a file is named by its path, with a \"/\"", names()))
}

/// Several profiles as one: a row that two have counts once.
pub fn together(profiles: &[Arc<Profile>]) -> Option<Arc<Profile>> {
    match profiles {
        [] => None,
        [one] => Some(Arc::clone(one)),
        several => {
            let mut all = Profile { name: joined(several.iter().map(|one| one.name.as_str())), ..Profile::default() };
            for one in several {
                for row in &one.rows {
                    if !all.rows.contains(row) {
                        all.rows.push(row.clone());
                    }
                }
                all.only_static |= one.only_static;
                all.tags.extend(one.tags.iter().filter(|tag| !all.tags.contains(tag)).cloned().collect::<Vec<_>>());
                all.purge.extend_from_slice(&one.purge);
            }
            Some(Arc::new(all))
        }
    }
}

/// `a, b and c`.
pub fn joined<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, before)) => format!("{} and {last}", before.join(", ")),
        None => String::new(),
    }
}

/// An application that was found, and by which of its files.
#[derive(Debug)]
pub struct Found {
    /// Its profile.
    pub profile: &'static BuiltIn,
    /// The files.
    pub by: String,
}

/// The applications in a folder; `has` says whether there is a file of that name below it, which may begin with `../`.
pub fn detect(has: &mut dyn FnMut(&str) -> bool) -> Vec<Found> {
    let mut found = Vec::new();
    for profile in built_in() {
        let row = profile.written.found.iter().find(|files| files.iter().all(|file| has(file)));
        if let Some(files) = row {
            found.push(Found { profile, by: joined(files.iter().map(String::as_str)) });
        }
    }
    found
}

/// Their names and texts.
const TEXTS: [(&str, &str); 13] = [
    ("common", include_str!("../../profiles/common.profile")),
    ("php", include_str!("../../profiles/php.profile")),
    ("wordpress", include_str!("../../profiles/wordpress.profile")),
    ("woocommerce", include_str!("../../profiles/woocommerce.profile")),
    ("edd", include_str!("../../profiles/edd.profile")),
    ("bbpress", include_str!("../../profiles/bbpress.profile")),
    ("magento", include_str!("../../profiles/magento.profile")),
    ("drupal", include_str!("../../profiles/drupal.profile")),
    ("mediawiki", include_str!("../../profiles/mediawiki.profile")),
    ("joomla", include_str!("../../profiles/joomla.profile")),
    ("nextcloud", include_str!("../../profiles/nextcloud.profile")),
    ("laravel", include_str!("../../profiles/laravel.profile")),
    ("symfony", include_str!("../../profiles/symfony.profile")),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::model::{Part, Says};

    #[test]
    fn ours_are_well_formed_and_each_goes_with_earlier_ones() {
        for (at, (name, text)) in TEXTS.iter().enumerate() {
            let mut wrong = Vec::new();
            let written = read(text, 0, name, &mut wrong);
            assert!(wrong.is_empty(), "{name}: {wrong:?}");
            assert!(!written.about.is_empty(), "{name}");
            for (with, _) in &written.with {
                let place = TEXTS.iter().position(|(known, _)| known == with);
                assert!(place.is_some_and(|place| place < at), "{name} goes with {with}");
            }
            let is_application = !["common", "php"].contains(name);
            assert_eq!(!written.found.is_empty(), is_application, "{name}");
            let mut wrong = Vec::new();
            let profile = made(name, &written, &mut wrong);
            assert!(wrong.is_empty(), "{name}");
            assert!(profile.rows.iter().any(|row| row.says == Says::IgnoredArgument), "{name} goes with common");
        }
    }

    #[test]
    fn no_row_of_ours_says_again_what_a_row_of_its_own_profile_says() {
        for known in built_in() {
            let mut seen = BTreeSet::new();
            for row in &known.written.rows {
                let says = format!("{:?} {}", row.says, row.pattern);
                assert!(seen.insert(says.clone()), "{}: {says} stands there twice", known.name);
            }
        }
    }

    #[test]
    fn applications_are_found_by_their_files() {
        for (files, expected) in [
            (&[][..], ""),
            (&["index.php"], ""),
            (&["wp-load.php"], "wordpress by wp-load.php"),
            (&["wp/wp-load.php", "index.php"], "wordpress by wp/wp-load.php"),
            (
                &["wp-load.php", "wp-content/plugins/woocommerce/woocommerce.php"],
                "wordpress by wp-load.php, woocommerce by wp-content/plugins/woocommerce/woocommerce.php",
            ),
            (&["app/etc/env.php"], ""),
            (&["../app/etc/env.php", "../bin/magento"], "magento by ../app/etc/env.php and ../bin/magento"),
            (&["core/lib/Drupal.php"], "drupal by core/lib/Drupal.php"),
            (&["LocalSettings.php"], "mediawiki by LocalSettings.php"),
            (
                &["configuration.php", "administrator/index.php"],
                "joomla by configuration.php and administrator/index.php",
            ),
            (&["occ", "status.php", "remote.php"], "nextcloud by occ, status.php and remote.php"),
            (&["../artisan"], "laravel by ../artisan"),
            (&["../bin/console"], "symfony by ../bin/console"),
        ] {
            let found = detect(&mut |file| files.contains(&file));
            let shown: Vec<String> =
                found.iter().map(|found| format!("{} by {}", found.profile.name, found.by)).collect();
            assert_eq!(shown.join(", "), expected, "{files:?}");
        }
    }

    #[test]
    fn what_several_say_counts_once() {
        let of = |name| Arc::new(known(find(name).expect("it is one of ours")));
        let both = together(&[of("woocommerce"), of("edd")]).expect("there are two");
        assert_eq!(both.name, "woocommerce and edd");
        let is_postpass = |row: &&crate::model::ProfileRow| {
            row.says == Says::Personal(Part::Cookie) && row.pattern.to_string() == "wp-postpass_*"
        };
        assert_eq!(both.rows.iter().filter(is_postpass).count(), 1);
        assert!(together(&[]).is_none());
        assert!(together(&[of("nextcloud"), of("php")]).is_some_and(|all| all.only_static));
    }
}
