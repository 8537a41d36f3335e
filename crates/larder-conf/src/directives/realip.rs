//! `set_real_ip_from`, `real_ip_header`, `real_ip_recursive`: the client's address behind proxies.

use super::access::network;
use super::{Action, Args, DirectiveInfo, HSL, ONE, directive, http, repeated};
use crate::model::RealIpFrom;

pub const TABLE: &[DirectiveInfo] = &[
    repeated(
        "set_real_ip_from",
        HSL,
        ONE,
        Action::Level(|l, cx, d| {
            let from = match d.text(0) {
                "unix:" => RealIpFrom::Unix,
                "localhost" => RealIpFrom::Net(ipnet::IpNet::from(std::net::IpAddr::from([127, 0, 0, 1]))),
                _ => RealIpFrom::Net(network(cx, d, d.arg(0))?),
            };
            l.list(|s| &mut s.real_ip.from).push(from);
            Ok(())
        }),
    ),
    directive(
        "real_ip_header",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            l.settings.real_ip.proxy_protocol = d.text(0) == "proxy_protocol";
            l.settings.real_ip.header = d.text(0).to_owned();
            Ok(())
        }),
    ),
    directive(
        "real_ip_recursive",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.real_ip.recursive, d.flag())),
    ),
];
