//! How this node of a cluster is, and what it knows of the others: for the API, the dashboard and `larder cluster status`.

use larder_cluster::{Lag, NodeStatus, Status};
use serde_json::{Value, json};

/// A node, and the others. `null` is what is not known.
pub fn cluster(status: &Status) -> Value {
    json!({
        "server": status.server, "name": status.name, "node": status.node,
        "fault": status.fault,
        "reads_purges": status.is_read,
        "uses_stored_pages": status.is_trusted,
        "heard_ago": status.heard_ago.map(|ago| ago.as_secs_f64()),
        "place": status.place,
        "lag": status.lag().map(lag),
        "carried_out": status.carried, "sent": status.sent, "unsent": status.unsent,
        "share": status.share.map(|share| json!({
            "found": share.found, "missing": share.missing, "waited": share.waited, "skipped": share.skipped,
            "stored": share.stored, "not_stored": share.unstored,
        })),
        "looked_ago": status.looked_ago.map(|ago| ago.as_secs_f64()),
        "nodes": status.nodes.iter().map(node).collect::<Vec<_>>(),
    })
}

fn node(node: &NodeStatus) -> Value {
    json!({
        "name": node.name,
        "is_this": node.is_this,
        "state": if node.away.is_some() { "away" } else { "there" },
        "away_seconds": node.away.map(|away| away.as_secs()),
        "place": node.place.map(|place| place.to_string()),
        "lag": node.lag.map(lag),
    })
}

fn lag(lag: Lag) -> Value {
    let millis = u64::try_from(lag.time.as_millis()).unwrap_or(u64::MAX);
    json!({ "entries": lag.entries, "milliseconds": millis, "is_more": lag.is_more })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_is_not_known_is_null() {
        let known = Lag { entries: 3, time: Duration::from_millis(1500), is_more: true };
        let away = NodeStatus {
            name: "web2".to_owned(),
            is_this: false,
            away: Some(Duration::from_millis(12_900)),
            place: "7-1".parse().ok(),
            lag: Some(known),
        };
        let there = NodeStatus { name: "web3".to_owned(), is_this: false, away: None, place: None, lag: None };
        assert_eq!(
            node(&away),
            json!({ "name": "web2", "is_this": false, "state": "away", "away_seconds": 12, "place": "7-1",
                "lag": { "entries": 3, "milliseconds": 1500, "is_more": true } })
        );
        assert_eq!(
            node(&there),
            json!({ "name": "web3", "is_this": false, "state": "there", "away_seconds": null, "place": null, "lag": null })
        );
    }
}
