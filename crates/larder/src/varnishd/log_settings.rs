//! How the transaction log is kept: `vsl_mask`, `vsl_reclen`, `vsl_space`.

use larder_server::vsl::{Settings, TagSet};
use larder_source::nearest;
use larder_vcl::functions::numbers;
use larder_vsl::{ALL, Tag};

/// What holds if nothing is set: Varnish leaves the same tags out.
pub fn usual() -> Settings {
    Settings { record_bytes_max: RECORD_BYTES, kept_bytes_max: 0, masked: usual_mask() }
}

/// Takes a parameter; whether it is one of them.
pub fn take(settings: &mut Settings, name: &str, value: &str) -> Result<bool, String> {
    match name {
        "vsl_mask" => settings.masked = mask(settings.masked, value)?,
        "vsl_reclen" => settings.record_bytes_max = size(value, 16, 65_535)?,
        "vsl_space" if value == "0" => settings.kept_bytes_max = 0,
        "vsl_space" => settings.kept_bytes_max = size(value, 1 << 20, 4 << 30)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn usual_mask() -> TagSet {
    let is_left_out = |tag: &Tag| {
        matches!(
            tag,
            Tag::Debug
                | Tag::ExpKill
                | Tag::H2RxBody
                | Tag::H2RxHdr
                | Tag::H2TxBody
                | Tag::H2TxHdr
                | Tag::Hash
                | Tag::ObjHeader
                | Tag::ObjProtocol
                | Tag::ObjReason
                | Tag::ObjStatus
                | Tag::VdpAcct
                | Tag::VfpAcct
                | Tag::WorkThread
        )
    };
    ALL.iter().copied().filter(is_left_out).fold(TagSet::default(), TagSet::with)
}

/// What a list such as `-VCL_Log,+Hash` makes of a mask: the list says which tags are told.
fn mask(before: TagSet, list: &str) -> Result<TagSet, String> {
    list.split([',', ' ']).filter(|word| !word.is_empty()).try_fold(before, |masked, word| match word {
        "default" => Ok(usual_mask()),
        "all" => Ok(TagSet::default()),
        "none" => Ok(ALL.iter().copied().fold(TagSet::default(), TagSet::with)),
        _ => {
            let name = word.trim_start_matches(['+', '-']);
            let tag = Tag::of_name(name).ok_or_else(|| unknown(name))?;
            match word.as_bytes()[0] {
                b'+' => Ok(masked.without(tag)),
                b'-' => Ok(masked.with(tag)),
                _ => Err(format!("write +{word} or -{word}")),
            }
        }
    })
}

fn unknown(name: &str) -> String {
    match nearest(name, ALL.iter().map(|tag| tag.name())) {
        Some(meant) => format!("the log has no tag \"{name}\"; did you mean \"{meant}\"?"),
        None => format!("the log has no tag \"{name}\""),
    }
}

fn size(value: &str, least: i64, most: i64) -> Result<usize, String> {
    let bytes = numbers::bytes(value.as_bytes()).or_else(|| value.parse().ok());
    let bytes = bytes.ok_or_else(|| format!("write a size such as 64k in place of \"{value}\""))?;
    match (least..=most).contains(&bytes) {
        true => Ok(usize::try_from(bytes).unwrap_or(usize::MAX)),
        false => Err(format!("write a value between {least} and {most}")),
    }
}

/// Varnish cuts records at 255 bytes, which is short for a cookie.
const RECORD_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_the_log_are_read() {
        let mut settings = usual();
        for (name, value, expected) in [
            ("vsl_mask", "+Hash,-VCL_Log", Ok(true)),
            ("vsl_mask", "+Hush", Err("the log has no tag \"Hush\"; did you mean \"Hash\"?")),
            ("vsl_mask", "Hash", Err("write +Hash or -Hash")),
            ("vsl_mask", "-", Err("the log has no tag \"\"")),
            ("vsl_reclen", "1k", Ok(true)),
            ("vsl_reclen", "8", Err("write a value between 16 and 65535")),
            ("vsl_space", "80M", Ok(true)),
            ("vsl_space", "0", Ok(true)),
            ("vsl_space", "80M", Ok(true)),
            ("vsl_space", "much", Err("write a size such as 64k in place of \"much\"")),
            ("default_ttl", "1", Ok(false)),
        ] {
            assert_eq!(take(&mut settings, name, value), expected.map_err(str::to_owned), "{name}={value}");
        }
        let told = |settings: &Settings, tag| !settings.masked.has(tag);
        assert!(told(&settings, Tag::Hash) && !told(&settings, Tag::VclLog) && !told(&settings, Tag::Debug));
        assert_eq!((settings.record_bytes_max, settings.kept_bytes_max), (1024, 80 << 20));
        for (list, hash, call) in [("none", false, false), ("all", true, true), ("default,-VCL_call", false, false)] {
            take(&mut settings, "vsl_mask", list).unwrap();
            assert_eq!((told(&settings, Tag::Hash), told(&settings, Tag::VclCall)), (hash, call), "{list}");
        }
    }
}
