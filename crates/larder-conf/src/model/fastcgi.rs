//! `fastcgi_*`.

use super::{OriginSettings, Pattern, Template};

/// `fastcgi_*`.
#[derive(Clone, Debug, Default)]
pub struct FastCgi {
    /// What it shares with `proxy_*`.
    pub origin: OriginSettings,
    /// `fastcgi_param`, in order.
    pub params: Vec<FastCgiParam>,
    /// `fastcgi_index`.
    pub index: Option<String>,
    /// `fastcgi_split_path_info`.
    pub split_path_info: Option<Pattern>,
    /// `fastcgi_keep_conn`, off.
    pub keep_conn: bool,
    /// `fastcgi_catch_stderr`, in order.
    pub catch_stderr: Vec<String>,
    /// `larder_php_status`: the `pm.status_path` of the pools that are asked.
    pub php_status: Option<String>,
}

/// `fastcgi_param`.
#[derive(Clone, Debug)]
pub struct FastCgiParam {
    /// The name.
    pub name: String,
    /// The value.
    pub value: Template,
    /// `if_not_empty`.
    pub if_not_empty: bool,
}
