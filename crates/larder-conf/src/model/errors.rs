//! `error_page`.

use super::Template;

/// `error_page` and `recursive_error_pages`.
#[derive(Clone, Debug, Default)]
pub struct ErrorPages {
    /// `error_page`, in order.
    pub pages: Vec<ErrorPage>,
    /// `recursive_error_pages`.
    pub recursive: bool,
}

/// One `error_page`.
#[derive(Clone, Debug)]
pub struct ErrorPage {
    /// For which statuses.
    pub statuses: Vec<u16>,
    /// The status to answer with.
    pub answer: ErrorPageStatus,
    /// `@name`, a URI, or a URL that is redirected to.
    pub target: Template,
}

/// The `=` of an `error_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPageStatus {
    /// None given: the status that led here.
    Keep,
    /// `=`: what the page itself answers.
    OfTarget,
    /// `=200`.
    Fixed(u16),
}
