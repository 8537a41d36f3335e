//! `modern_browser` and `ancient_browser`.

use super::{Action, Args, DirectiveInfo, HSL, ONE, directive, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::Browser;
use crate::tree::Directive;

pub const TABLE: &[DirectiveInfo] = &[
    repeated("modern_browser", HSL, Args::Between(1, 2), Action::Level(modern)),
    repeated("ancient_browser", HSL, Args::AtLeast(1), Action::Level(ancient)),
    directive(
        "modern_browser_value",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            l.modules().browsers.modern_value = d.text(0).to_owned();
            Ok(())
        }),
    ),
    directive(
        "ancient_browser_value",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            l.modules().browsers.ancient_value = d.text(0).to_owned();
            Ok(())
        }),
    ),
];

const BROWSERS: [(&str, Browser); 5] = [
    ("opera", Browser::Opera),
    ("msie", Browser::Msie),
    ("gecko", Browser::Gecko),
    ("safari", Browser::Safari),
    ("konqueror", Browser::Konqueror),
];

fn modern(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let is_first = level.is_first;
    let browsers = &mut level.modules().browsers;
    if is_first {
        browsers.modern.clear();
        browsers.unlisted_is_modern = false;
    }
    let Some(word) = d.args.get(1) else {
        if d.text(0) != "unlisted" {
            return Err(d.invalid(d.arg(0), "\"unlisted\", or a browser and its version"));
        }
        browsers.unlisted_is_modern = true;
        return Ok(());
    };
    let name = d.arg(0);
    let browser = BROWSERS.iter().find(|(known, _)| name.text.eq_ignore_ascii_case(known));
    let Some((_, browser)) = browser else {
        return Err(Diagnostic::error(format!("unknown browser name \"{}\"", name.text))
            .at(name.span)
            .label("it must be opera, msie, gecko, safari or konqueror"));
    };
    let version = version(&word.text)
        .ok_or_else(|| Diagnostic::error(format!("invalid browser version \"{}\"", word.text)).at(word.span))?;
    browsers.modern.push((*browser, version));
    Ok(())
}

/// A version as nginx weighs it: the parts between dots times a million, ten thousand, a hundred and one.
fn version(text: &str) -> Option<u64> {
    let mut version = 0u64;
    let mut scale = 1_000_000u64;
    for part in text.split('.') {
        if !part.bytes().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let number: u64 = if part.is_empty() { 0 } else { part.parse().ok()? };
        version = version.saturating_add(number.saturating_mul(scale));
        scale /= 100;
    }
    Some(version)
}

fn ancient(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let is_first = level.is_first;
    let browsers = &mut level.modules().browsers;
    if is_first {
        browsers.ancient.clear();
        browsers.netscape4 = false;
    }
    for word in &d.args {
        match word.text.as_str() {
            "netscape4" => browsers.netscape4 = true,
            text => browsers.ancient.push(text.to_owned()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_weigh_what_they_weigh_in_nginx() {
        for (text, weight) in [
            ("5.5", Some(5_050_000)),
            ("9", Some(9_000_000)),
            ("1.5.0.7", Some(1_050_007)),
            ("1.", Some(1_000_000)),
            ("1a", None),
        ] {
            assert_eq!(version(text), weight, "{text}");
        }
    }
}
