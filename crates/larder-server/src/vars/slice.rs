//! `$slice_range`: asking for it cuts a request into slices.

use crate::context::Cx;
use crate::exchange::{Exchange, Slice, Slicing};

/// Appends the slice that is asked for.
pub fn append_range(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    if ex.visit.slicing == Slicing::Unasked && ex.tally.is_logging {
        return false;
    }
    let settings = &cx.loc(ex).settings;
    // A range that is not looked at must not choose where the page begins.
    let request = Some(&ex.asked.head.fields).filter(|_| settings.parts.max_ranges != Some(0));
    let Some((first, last)) = ex.visit.slicing.ask(settings.parts.slice_bytes, request).map(Slice::ends) else {
        return false;
    };
    out.extend_from_slice(format!("bytes={first}-{last}").as_bytes());
    true
}
