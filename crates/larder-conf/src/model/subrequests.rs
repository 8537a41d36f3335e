//! What makes requests inside a request: SSI, ESI, `add_*_body`, `auth_request`, `mirror`.

use super::{MediaTypes, Template};

/// What holds at a level about requests inside a request.
#[derive(Clone, Debug)]
pub struct Subrequests {
    /// `ssi` and `ssi_*`.
    pub ssi: Ssi,
    /// `larder_esi`, off.
    pub esi: Esi,
    /// `add_before_body`: a path with arguments; `None` for nothing.
    pub before_body: Option<String>,
    /// `add_after_body`, likewise.
    pub after_body: Option<String>,
    /// `addition_types`.
    pub addition_types: MediaTypes,
    /// `auth_request`: whom to ask; `None` for `off`.
    pub auth_request: Option<String>,
    /// `auth_request_set`: variables without the dollar, in order.
    pub auth_request_set: Vec<(String, Template)>,
    /// `mirror`, in order; empty for `off`.
    pub mirrors: Vec<String>,
    /// `mirror_request_body`, on.
    pub mirror_body: bool,
    /// `subrequest_output_buffer_size`, 4k: the longest answer that goes to a variable.
    pub output_buffer_bytes: usize,
}

impl Default for Subrequests {
    fn default() -> Self {
        Self {
            ssi: Ssi::default(),
            esi: Esi::Off,
            before_body: None,
            after_body: None,
            addition_types: MediaTypes::default(),
            auth_request: None,
            auth_request_set: Vec::new(),
            mirrors: Vec::new(),
            mirror_body: true,
            output_buffer_bytes: 4096,
        }
    }
}

/// Which pages `larder_esi` puts together by ESI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Esi {
    /// None.
    #[default]
    Off,
    /// HTML and XML, and what its origin says it of.
    On,
    /// What its origin says it of, by `Surrogate-Control: content="ESI/1.0"`.
    Surrogate,
}

/// `ssi` and `ssi_*`.
#[derive(Clone, Debug)]
pub struct Ssi {
    /// `ssi`, off.
    pub enabled: bool,
    /// `ssi_silent_errors`, off: whether a page says nothing of its errors.
    pub silent_errors: bool,
    /// `ssi_last_modified`, off: whether `Last-Modified` and `ETag` stay.
    pub last_modified: bool,
    /// `ssi_value_length`, 255 bytes: the longest value of a parameter.
    pub value_bytes: usize,
    /// `ssi_types`.
    pub types: MediaTypes,
}

impl Default for Ssi {
    fn default() -> Self {
        Self {
            enabled: false,
            silent_errors: false,
            last_modified: false,
            value_bytes: 255,
            types: MediaTypes::default(),
        }
    }
}
