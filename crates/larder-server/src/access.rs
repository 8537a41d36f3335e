//! `allow` and `deny`: the first rule that matches the client decides.

use std::net::IpAddr;

use ipnet::IpNet;
use larder_conf::model::{AccessRule, AccessWho};

/// The line for the log at `error`, unless `satisfy any` may still let the client in.
pub const FORBIDDEN_TEXT: &str = "access forbidden by rule";

/// The client's address as rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A client with an IP address.
    Ip(IpAddr),
    /// A client of a unix socket.
    Unix,
}

/// The result of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// An `allow` matches the client. With `satisfy any`, this is enough.
    Allowed,
    /// A `deny` matches the client: 403.
    Denied,
    /// No rule matches.
    NoRule,
}

/// Checks `rules` in order. An IPv4-mapped IPv6 address counts as IPv4 if there are rules for IPv4.
pub fn check(rules: &[AccessRule], peer: Peer) -> Verdict {
    let is_about = |rule: &AccessRule| match (&rule.who, peer) {
        (AccessWho::All, Peer::Ip(_) | Peer::Unix) | (AccessWho::Unix, Peer::Unix) => true,
        (AccessWho::Net(net), Peer::Ip(ip)) => net.contains(&address_for(rules, ip)),
        (AccessWho::Net(_), Peer::Unix) | (AccessWho::Unix, Peer::Ip(_)) => false,
    };
    match rules.iter().find(|rule| is_about(rule)) {
        Some(AccessRule { allow: true, .. }) => Verdict::Allowed,
        Some(AccessRule { allow: false, .. }) => Verdict::Denied,
        None => Verdict::NoRule,
    }
}

/// Whether an address is in one of these networks. An IPv4-mapped IPv6 address, as a client of IPv4 has at `[::]`, counts as
/// IPv4, too.
pub fn is_in(nets: &[IpNet], ip: IpAddr) -> bool {
    let v4 = ip.to_canonical();
    nets.iter().any(|net| net.contains(&v4) || net.contains(&ip))
}

/// nginx has a list for each family, with `all` in both, and uses the one for IPv4 only if it has entries.
fn address_for(rules: &[AccessRule], ip: IpAddr) -> IpAddr {
    let is_for_v4 = |rule: &AccessRule| match rule.who {
        AccessWho::All => true,
        AccessWho::Net(net) => net.addr().is_ipv4(),
        AccessWho::Unix => false,
    };
    if ip.is_ipv6() && rules.iter().any(is_for_v4) { ip.to_canonical() } else { ip }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn rule(text: &str) -> AccessRule {
        let (allow, who) = match text.split_once(' ') {
            Some(("allow", who)) => (true, who),
            Some((_, who)) => (false, who),
            None => panic!("a case is a verb and a word"),
        };
        let who = match who {
            "all" => AccessWho::All,
            "unix:" => AccessWho::Unix,
            net => AccessWho::Net(net.parse().expect("a net")),
        };
        AccessRule { allow, who }
    }

    #[test]
    fn the_first_rule_about_the_client_decides() {
        use Verdict::{Allowed, Denied, NoRule};
        let lan = "deny 10.0.0.1/32; allow 10.0.0.0/8; allow 2001:db8::/32; deny all";
        for (rules, peer, verdict) in [
            (lan, "10.0.0.1", Denied),
            (lan, "10.0.0.2", Allowed),
            (lan, "11.0.0.1", Denied),
            (lan, "::ffff:10.0.0.2", Allowed),
            (lan, "::ffff:10.0.0.1", Denied),
            (lan, "2001:db8::9", Allowed),
            (lan, "2001:db9::9", Denied),
            (lan, "unix", Denied),
            ("allow unix:; deny all", "unix", Allowed),
            ("allow unix:; deny all", "10.0.0.1", Denied),
            ("deny 10.0.0.0/8", "11.0.0.1", NoRule),
            ("deny 10.0.0.0/8", "unix", NoRule),
            ("allow all; deny all", "1.1.1.1", Allowed),
            ("deny ::ffff:10.0.0.0/104", "::ffff:10.0.0.2", Denied),
            ("deny ::ffff:10.0.0.0/104; allow all", "::ffff:10.0.0.2", Allowed),
        ] {
            let rules_list: Vec<_> = rules.split("; ").map(rule).collect();
            let peer = peer.parse().map_or(Peer::Unix, Peer::Ip);
            assert_eq!(check(&rules_list, peer), verdict, "{peer:?} by {rules}");
        }
        assert_eq!(check(&[], Peer::Unix), NoRule);
    }

    #[test]
    fn a_mapped_address_is_in_networks_of_both_families() {
        for (net, ip, expected) in [
            ("10.0.0.0/8", "10.1.1.1", true),
            ("10.0.0.0/8", "::ffff:10.1.1.1", true),
            ("10.0.0.0/8", "::ffff:11.1.1.1", false),
            ("::ffff:10.0.0.0/104", "::ffff:10.1.1.1", true),
            ("2001:db8::/32", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
        ] {
            let net = net.parse().expect("a net");
            assert_eq!(is_in(&[net], ip.parse().expect("an address")), expected, "{ip} in {net}");
        }
        assert!(!is_in(&[], Ipv4Addr::LOCALHOST.into()));
    }
}
