//! `ban()`: pages of the zone that are out of date.

use larder_conf::model::LogLevel;
use larder_vcl::steps::Steps;

use crate::bans;

use super::task::Run;

/// Bans what an expression says in the zone of the pages. One that is wrong bans nothing and is logged, and the sub goes
/// on, as in Varnish; then what is wrong is returned.
pub fn ban(run: &mut Run<'_>, expression: &[u8]) -> Option<String> {
    let condition = match str::from_utf8(expression) {
        Ok(text) => bans::of_text(text).map_err(|refused| refused.to_string()),
        Err(_) => Err("it is not UTF-8".to_owned()),
    };
    let condition = match condition {
        Ok(condition) => condition,
        Err(why) => {
            run.cx.local.logs.error(run.cx, run.ex, LogLevel::Error, format_args!("ban(): {why}"));
            return Some(why);
        }
    };
    let zone = run.cx.zone(run.policy.zone?);
    if run.ex.is_walk() {
        return None;
    }
    let number = zone.ban(condition, run.cx.now());
    run.ex.tally.has_purged |= run.cx.worker.shared.sharing.is_shared();
    if Steps::BACKEND.contains(run.step) {
        // What this fetch brings is newer than the ban.
        let own = &mut run.ex.vcl.fetch.bans;
        *own = match own.take() {
            Some((first, last)) if last + 1 == number => Some((first, number)),
            _ => Some((number, number)),
        };
    }
    None
}
