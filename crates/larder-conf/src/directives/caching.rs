//! By which rules pages are cached: `larder_cache_mode` and `larder_targeted_cache_control`.

use super::{Action, Args, DirectiveInfo, HSL, directive};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::CacheMode;
use crate::tree::Directive;

pub const TABLE: &[DirectiveInfo] = &[
    directive("larder_cache_mode", HSL, Args::Between(1, 2), Action::Level(mode)),
    directive("larder_targeted_cache_control", HSL, Args::AtLeast(1), Action::Level(targets)),
];

fn mode(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let second = d.args.get(1);
    level.caching().mode = match (d.text(0), second.map(|word| &*word.text)) {
        ("nginx", None) => CacheMode::Nginx,
        ("rfc9111", None) => CacheMode::Rfc9111 { honours_requests: true },
        ("rfc9111", Some("ignore_requests")) => CacheMode::Rfc9111 { honours_requests: false },
        ("nginx" | "rfc9111", Some(other)) => {
            return Err(Diagnostic::error(format!("invalid parameter \"{other}\" in \"larder_cache_mode\" directive"))
                .at(d.arg(1).span)
                .label("\"rfc9111\" may be followed by \"ignore_requests\", and \"nginx\" by nothing"));
        }
        (other, _) => {
            return Err(Diagnostic::error(format!("invalid value \"{other}\" in \"larder_cache_mode\" directive"))
                .at(d.arg(0).span)
                .label("it must be \"nginx\" or \"rfc9111\""));
        }
    };
    Ok(())
}

fn targets(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut names = Vec::new();
    for word in &d.args {
        let is_name =
            !word.text.is_empty() && word.text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if !is_name || word.text == "off" && d.args.len() > 1 {
            return Err(Diagnostic::error(format!("invalid field name \"{}\"", word.text))
                .at(word.span)
                .label("write names of fields such as \"CDN-Cache-Control\", the strongest first, or \"off\" alone"));
        }
        // These two are what a targeted field takes the place of.
        if ["cache-control", "expires"].iter().any(|name| word.text.eq_ignore_ascii_case(name)) {
            return Err(Diagnostic::error(format!("\"{}\" is no targeted field", word.text))
                .at(word.span)
                .label("it always counts where no targeted field is sent; leave it out"));
        }
        if word.text != "off" {
            names.push(word.text.to_ascii_lowercase());
        }
    }
    level.caching().targets = names;
    Ok(())
}
