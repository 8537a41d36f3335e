//! `include`: a request inside the page.

use crate::exchange::Exchange;
use crate::records;
use crate::request::compose::parts::{Fallback, Inner, OnError, Wait};
use crate::script;

use super::parse::shown;
use super::{Document, Done, Failure, Page, subrequest, wrong};

impl Document {
    /// Asks for what is to be included, and puts it into the page or a variable.
    pub(super) async fn include(&mut self, include: &Include<'_>, page: &mut Page) -> Done {
        let wait = include.waits()?;
        let target = include.uri.or(include.file).unwrap_or_default();
        let has_variables = target.contains(&b'$');
        let mut target = self.value(target, page)?;
        if !(target.is_empty() && has_variables) {
            target = beside(target, &page.ex);
        }
        if target.is_empty() || target.starts_with(b"?") || script::is_unsafe_uri(&target) {
            return Err(wrong(format!("unsafe URI \"{}\" was detected", shown(&target))));
        }
        let (uri, args) = crate::script::split_uri(&target);
        let stub = match include.stub {
            None => None,
            Some(name) => Some(
                self.shared
                    .block(name)
                    .ok_or_else(|| wrong(format!("\"stub\"=\"{}\" for \"include\" not found", shown(name))))?,
            ),
        };
        self.count_include(page)?;
        let mut inner = subrequest::begin(&page.ex, &uri, &args, &page.cx).ok_or(Failure::Wrong(None))?;
        records::begin_inside(&page.ex, &mut inner, "ssi", &page.cx);
        match include.set {
            None => {
                let wait = if wait { Wait::ToTheEnd } else { Wait::No };
                Ok(page
                    .include(Inner::New(inner), stub.map_or(Fallback::None, Fallback::Stub), wait, OnError::Show)
                    .await?)
            }
            Some(name) => {
                if !self.shared.append(&name.to_ascii_lowercase(), &mut Vec::new()) {
                    self.shared.set(name, Vec::new());
                }
                if let Some(value) = page.fetch(inner).await? {
                    self.shared.set(name, value);
                }
                Ok(())
            }
        }
    }

    /// Counts an include; an error beyond what a page, and a request with all that is inside it, may have. The log gets
    /// one line of each.
    fn count_include(&mut self, page: &Page) -> Done {
        self.includes += 1;
        if self.includes > PAGE_INCLUDES_MAX {
            return Err(beyond(self.includes, PAGE_INCLUDES_MAX, "one page", page));
        }
        let all = self.shared.includes.get() + 1;
        self.shared.includes.set(all);
        if all > REQUEST_INCLUDES_MAX {
            return Err(beyond(all, REQUEST_INCLUDES_MAX, "one request", page));
        }
        Ok(())
    }
}

/// How many times a page may include something.
const PAGE_INCLUDES_MAX: usize = 2_000;
/// How many includes a request may lead to, on all levels: a page that includes itself twice would go on for ever.
const REQUEST_INCLUDES_MAX: usize = 10_000;

fn beyond(count: usize, max: usize, of: &str, page: &Page) -> Failure {
    let is_first = count == max + 1;
    let uri = shown(&page.ex.request.uri);
    Failure::Wrong(is_first.then(|| format!("more than {max} includes in {of} while processing \"{uri}\"")))
}

/// The parameters of an `include`.
pub(super) struct Include<'a> {
    /// `virtual`.
    pub uri: Option<&'a [u8]>,
    /// `file`.
    pub file: Option<&'a [u8]>,
    /// `wait`.
    pub wait: Option<&'a [u8]>,
    /// `set`.
    pub set: Option<&'a [u8]>,
    /// `stub`.
    pub stub: Option<&'a [u8]>,
}

impl Include<'_> {
    /// Whether the page waits for it; an error when the parameters do not go together.
    fn waits(&self) -> Done<bool> {
        match (self.uri, self.file) {
            (Some(uri), Some(file)) => {
                let (uri, file) = (shown(uri), shown(file));
                return Err(wrong(format!("inclusion may be either virtual=\"{uri}\" or file=\"{file}\"")));
            }
            (None, None) => return Err(wrong("no parameter in \"include\" SSI command")),
            (Some(_), None) | (None, Some(_)) => {}
        }
        if self.set.is_some() && self.stub.is_some() {
            return Err(wrong("\"set\" and \"stub\" cannot be used together in \"include\" SSI command"));
        }
        match (self.wait, self.file) {
            // A file is there at once, so the page can just as well wait.
            (None, file) => Ok(file.is_some()),
            (Some(_), Some(file)) => Err(wrong(format!("\"wait\" cannot be used with file=\"{}\"", shown(file)))),
            (Some(wait), None) if wait.eq_ignore_ascii_case(b"no") => Ok(false),
            (Some(wait), None) if wait.eq_ignore_ascii_case(b"yes") => Ok(true),
            (Some(wait), None) => Err(wrong(format!("invalid value \"{}\" in the \"wait\" parameter", shown(wait)))),
        }
    }
}

/// A path that does not begin with a slash lies beside the page.
fn beside(target: Vec<u8>, ex: &Exchange) -> Vec<u8> {
    if target.starts_with(b"/") {
        return target;
    }
    let folder = ex.request.uri.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    [&ex.request.uri[..folder], &target].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_include_waits_where_it_says_so_and_for_files() {
        let include = |uri, file, wait, set, stub| Include { uri, file, wait, set, stub };
        let (a, b): (Option<&[u8]>, Option<&[u8]>) = (Some(b"/a"), Some(b"b"));
        let (yes, no): (Option<&[u8]>, Option<&[u8]>) = (Some(b"YES"), Some(b"no"));
        for (parameters, waits) in [
            (include(a, None, None, None, None), Some(false)),
            (include(None, a, None, None, None), Some(true)),
            (include(a, None, yes, None, None), Some(true)),
            (include(a, None, no, None, None), Some(false)),
            (include(a, None, b, None, None), None),
            (include(None, a, yes, None, None), None),
            (include(a, b, None, None, None), None),
            (include(None, None, None, None, None), None),
            (include(a, None, None, b, b), None),
            (include(a, None, None, b, None), Some(false)),
        ] {
            assert_eq!(parameters.waits().ok(), waits, "{:?} {:?}", parameters.uri, parameters.wait);
        }
    }
}
