//! `larder purge`, on the thread of the question.

use std::sync::Arc;

use larder_cache::Zone;

use crate::purges::deeds::{self, Done};
use crate::purges::wanted::Wanted;
use crate::{bans, clock};

use super::{Form, json};

/// Purges in these zones, and waits until disks have noted it. An error says why nothing was, or that a restart may forget
/// it.
pub(super) fn purge(wanted: &Wanted, zones: &[Arc<Zone>]) -> Result<Done, String> {
    let deeds = wanted.planned(zones).map_err(|why| format!("nothing is purged: {why}"))?;
    let noted = deeds::noted(&deeds);
    let done = deeds::carry_out(deeds, clock::now()).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| format!("it is purged, but nobody can wait for disks: {error}"))?;
    runtime.block_on(bans::kept(&noted)).map_err(|why| why.to_string())?;
    Ok(done)
}

pub(super) fn shown(done: &Done, form: Form) -> String {
    match form {
        Form::Text => done.text(),
        Form::Json => {
            let banned: Vec<String> = done.banned.iter().map(|ban| json(ban)).collect();
            let (pages, on_disk, banned) = (done.pages, done.is_also_on_disk, banned.join(","));
            format!("{{\"purged\":{pages},\"also_on_disk\":{on_disk},\"banned\":[{banned}]}}\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_told_in_json() {
        let done = Done { pages: 2, is_also_on_disk: true, banned: vec!["obj.http.a ~ \"b\"".to_owned()] };
        let expected = "{\"purged\":2,\"also_on_disk\":true,\"banned\":[\"obj.http.a ~ \\\"b\\\"\"]}\n";
        assert_eq!(shown(&done, Form::Json), expected);
        assert_eq!(shown(&Done::default(), Form::Json), "{\"purged\":0,\"also_on_disk\":false,\"banned\":[]}\n");
    }
}
