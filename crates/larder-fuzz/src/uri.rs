//! Request targets and hosts.

use larder_http::uri::reference;
use larder_http::{Escape, escape_html, escape_uri, normalise, normalise_host, unescape};

/// Targets: the normal form names nothing outside, is normal, and what is escaped comes back.
pub fn uri(data: &[u8]) {
    for merge_slashes in [false, true] {
        let (mut path, mut escaped, mut again) = (Vec::new(), Vec::new(), Vec::new());
        let Ok(parts) = normalise(data, merge_slashes, &mut path) else {
            continue;
        };
        assert_eq!(path.first(), Some(&b'/'));
        assert!(!path.contains(&0));
        let mut segments = path.split(|byte| *byte == b'/');
        assert!(!segments.any(|segment| matches!(segment, b"." | b"..")), "{:?}", path.escape_ascii().to_string());
        assert!(!merge_slashes || !path.windows(2).any(|pair| pair == b"//"));
        assert!(parts.args.is_none_or(|args| args.end <= data.len() && args.start > 0 && data[args.start - 1] == b'?'));
        assert!(parts.extension.is_none_or(|range| range.end == path.len() && path[range.start - 1] == b'.'));
        assert!(!parts.plain || data.starts_with(&path));

        escape_uri(&path, Escape::Uri, &mut escaped);
        normalise(&escaped, merge_slashes, &mut again).expect("a normal path can be asked for");
        assert_eq!(again, path, "a path in normal form is its own");
    }
    for kind in [Escape::Uri, Escape::Args, Escape::UriComponent, Escape::Html] {
        let (mut escaped, mut plain) = (Vec::new(), Vec::new());
        escape_uri(data, kind, &mut escaped);
        assert!(!escaped.iter().any(|byte| *byte <= b' ' || *byte > b'~'), "{kind:?}");
        unescape(&escaped, &mut plain);
        assert_eq!(plain, data, "{kind:?}");
    }
    let target = reference::target_from(b"/a/b?c", data);
    let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
    assert!(path.starts_with(b"/") && !path.split(|byte| *byte == b'/').any(|part| matches!(part, b"." | b"..")));
    let mut html = Vec::new();
    escape_html(data, &mut html);
    assert!(!html.iter().any(|byte| b"<>\"".contains(byte)));

    let mut out = Vec::new();
    if let Ok(parts) = normalise_host(data, &mut out) {
        let host = out[parts.host].to_vec();
        assert!(!host.iter().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_control() || b" /".contains(byte)));
        let mut again = Vec::new();
        let parts = normalise_host(&host, &mut again).expect("a host in normal form");
        assert_eq!((&again[parts.host], parts.port), (&host[..], None));
    }
}
