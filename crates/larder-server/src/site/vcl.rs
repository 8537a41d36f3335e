//! A VCL that was compiled.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use larder_http::{Known, Names};
use larder_vcl::parameters::Parameters;
use larder_vcl::policy::Header;
use larder_vcl::program::Program;
use larder_vcl::steps::Step;
use larder_vcl::vars::Headers;
use larder_vcl::{Loaded, compile};

use std::net::IpAddr;

use larder_conf::{Diagnostic, Lines};

use crate::objects::{Objects, Surroundings, initialize};
use crate::probes::Probed;
use crate::regex::Regex;
use crate::vmods::ReadFiles;

use super::unbuilt;

/// A VCL, ready to be carried out.
pub struct Vcl {
    /// What it means: names, backends, objects.
    pub policy: larder_vcl::Policy,
    /// Its instructions.
    pub program: Program,
    /// Its regular expressions, by their numbers.
    pub regexes: Vec<Regex>,
    /// The names of headers, by their numbers.
    pub headers: Vec<HeaderName>,
    /// Headers that are unset together, by the numbers of their lists.
    pub header_lists: Vec<HeaderList>,
    /// Its backends, and the objects that its `vcl_init` has made.
    pub objects: Arc<Objects>,
    /// Which of our own headers its `vcl_deliver` has a use for.
    pub adds: AddedHeaders,
    /// The files that it has read.
    pub files: ReadFiles,
    /// Where the lines of its sources begin.
    pub lines: Lines,
    /// The environment, if it asks for that.
    pub environment: HashMap<OsString, OsString>,
}

/// Which headers are added to each response: those that `vcl_deliver` does not drop unread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddedHeaders {
    /// `X-Varnish`
    pub number: bool,
    /// `Age`
    pub age: bool,
    /// `Via`
    pub via: bool,
    /// `Content-Length`, which the response has in any case; this one is for the VCL.
    pub length: bool,
    /// `Accept-Ranges`
    pub ranges: bool,
}

impl AddedHeaders {
    fn of(policy: &larder_vcl::Policy, program: &Program) -> Self {
        let fate = |name: &str| {
            let is_it = |header: Header| {
                header.of == Headers::Resp && policy.headers[header.name.0 as usize].eq_ignore_ascii_case(name)
            };
            program.fate(Step::Deliver, is_it)
        };
        Self {
            number: fate("X-Varnish").matters(),
            age: fate("Age").matters(),
            via: fate("Via").matters(),
            length: fate("Content-Length").is_read,
            ranges: fate("Accept-Ranges").matters(),
        }
    }
}

/// The name of a header.
pub struct HeaderName {
    /// What is known of it.
    pub known: Known,
    /// As it was written first.
    pub name: Box<str>,
}

/// Headers of one message.
pub struct HeaderList {
    /// The message.
    pub of: Headers,
    /// Their names.
    pub names: Names,
}

impl HeaderList {
    fn of(list: &[Header], policy: &larder_vcl::Policy) -> Option<Self> {
        let names = list.iter().map(|header| &policy.headers[header.name.0 as usize]).collect();
        Some(Self { of: list.first()?.of, names })
    }
}

impl Vcl {
    /// Compiles a VCL and runs its `vcl_init`. `addresses_of` looks up names. Returns it with notices, or all that is
    /// wrong with it.
    pub fn new(
        loaded: Loaded,
        addresses_of: &dyn Fn(&str) -> Vec<IpAddr>,
        surroundings: &Surroundings,
    ) -> Result<(Self, Vec<Diagnostic>), Vec<Diagnostic>> {
        let (policy, lines) = (loaded.policy, loaded.lines);
        let program = compile(&policy, addresses_of)?;
        let unbuilt = unbuilt::errors(&program);
        if !unbuilt.is_empty() {
            return Err(unbuilt);
        }
        let mut regexes = Vec::with_capacity(policy.regexes.len());
        for regex in &policy.regexes {
            match Regex::limited(&regex.pattern, false, surroundings.parameters.pcre2_match_limit) {
                Ok(compiled) => regexes.push(compiled),
                Err(why) => return Err(vec![*Diagnostic::error(why).at(regex.span)]),
            }
        }
        let headers = policy.headers.iter();
        let headers = headers.map(|name| HeaderName { known: Known::of(name.as_bytes()), name: name.as_str().into() });
        let headers = headers.collect();
        let header_lists = program.header_lists().iter().filter_map(|list| HeaderList::of(list, &policy)).collect();
        let adds = AddedHeaders::of(&policy, &program);
        let (objects, notices) = initialize(&policy, &program, &regexes, surroundings)?;
        let (files, environment) = (ReadFiles::default(), HashMap::new());
        let objects = Arc::new(objects);
        Ok((
            Self { policy, program, regexes, headers, header_lists, objects, adds, files, lines, environment },
            notices,
        ))
    }
}

impl Vcl {
    /// Whether it asks for the environment, which only the binary reads.
    pub fn reads_environment(&self) -> bool {
        self.program.calls("std", "getenv")
    }

    /// Whether it purges by tags, so that those of its pages are noted.
    pub fn has_tags(&self) -> bool {
        self.policy.modules.contains(&"xkey")
    }

    /// Whether it reads bodies of requests, so that they are kept before its first sub.
    pub fn keeps_bodies(&self) -> bool {
        self.program.calls("std", "cache_req_body") || self.policy.modules.contains(&"bodyaccess")
    }
}

/// A VCL that a configuration uses.
pub struct UsedVcl {
    /// Its file, as the configuration names it.
    pub file: PathBuf,
    /// What it is called in the transaction log.
    pub name: Box<str>,
    /// The VCL.
    pub vcl: Arc<Vcl>,
    /// Its backends with probes.
    pub probed: Vec<Arc<Probed>>,
}

/// What a server is called where it serves by a VCL.
pub struct VclNames {
    /// Our member of `Via`.
    pub via: Box<[u8]>,
    /// `server.identity`
    pub identity: Box<str>,
    /// `local.socket`: names, each with the address that is listened at.
    pub endpoints: Vec<(Box<str>, Box<str>)>,
}

/// The VCL as the policy of one of its backends.
pub struct VclPolicy {
    /// The VCL.
    pub vcl: Arc<Vcl>,
    /// Its parameters.
    pub parameters: Arc<Parameters>,
    /// What this server is called.
    pub names: Arc<VclNames>,
    /// Where pages are kept; `None` if the location has no cache.
    pub zone: Option<usize>,
    /// With `larder_cache_mode rfc9111`: the targeted fields, in lower case, the strongest first.
    pub targets: Option<Arc<[Box<str>]>>,
    /// What each key ends with: the location, and what answers there without the VCL. Empty where there is one location.
    pub place: Arc<[u8]>,
    /// The number of the backend that is asked if the VCL names no other. What the location serves without a VCL has
    /// the one behind the last.
    pub default_backend: Option<usize>,
    /// The place in [`Handler::Vcl`](super::Handler::Vcl) of its first backend.
    pub first: usize,
    /// The same of the VCLs to which it may give requests, by the numbers of their labels. A VCL that is reached by a
    /// label has none.
    pub labels: Arc<[usize]>,
}
