//! `$slice_range`: reading it makes a request be answered in slices.

use crate::context::Cx;
use crate::exchange::{Exchange, Slice, Slicing};

/// Appends the range of the slice that is requested.
pub fn append_range(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    if ex.visit.slicing == Slicing::Unasked && ex.tally.is_logging {
        return false;
    }
    let settings = &cx.loc(ex).settings;
    // A client's range that is ignored must not choose the first slice.
    let request = Some(&ex.asked.head.fields).filter(|_| settings.parts.max_ranges != Some(0));
    let Some((first, last)) = ex.visit.slicing.ask(settings.parts.slice_bytes, request).map(Slice::ends) else {
        return false;
    };
    out.extend_from_slice(format!("bytes={first}-{last}").as_bytes());
    true
}
