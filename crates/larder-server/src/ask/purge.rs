//! `larder purge`, on the thread of the question.

use crate::cluster::Sharing;
use crate::purges::deeds::{self, Done};
use crate::purges::wanted::{Pages, Wanted};
use crate::vsl::Plain;
use crate::{bans, clock};

use super::{Form, Missing, Told};

/// Purges in these zones, and waits until disks have noted it, and other larders know it. An error says why nothing was, or
/// that a restart may forget it.
pub(super) fn purge(wanted: &Wanted, pages: &Pages, sharing: &Sharing) -> Result<Done, String> {
    if wanted.is_to_be_everywhere() && !sharing.is_shared() {
        return Err(NO_CLUSTER.to_owned());
    }
    let deeds = wanted.planned(&pages.zones, &pages.profiles).map_err(|why| format!("nothing is purged: {why}"))?;
    let noted = deeds::noted(&deeds);
    let mut done = deeds::carry_out(deeds, clock::now()).map_err(|error| error.to_string())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| format!("it is purged, but nobody can wait for disks: {error}"))?;
    runtime.block_on(bans::kept(&noted)).map_err(|why| why.to_string())?;
    done.known = runtime.block_on(sharing.known());
    Ok(done)
}

/// The answer, and whether a node is missing, if that matters.
pub(super) fn told(wanted: &Wanted, done: &Done, form: Form) -> Told {
    let text = match form {
        Form::Text => done.text(),
        Form::Json => done.json(),
    };
    let known = done.known.as_ref().filter(|known| wanted.is_to_be_everywhere() && !known.is_everywhere());
    let missing = known.map(|known| {
        let line = format!("not all nodes know it: {}", Plain(&known.missing()));
        if known.is_where_nodes_are() { Missing::Away(line) } else { Missing::Some(line) }
    });
    Told { text, missing }
}

const NO_CLUSTER: &str = "nothing is purged: \"--everywhere\" is about a cluster, and the server is in none: \
                          \"larder_cluster\" in its configuration makes it a node of one";
