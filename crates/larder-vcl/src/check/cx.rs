//! What the checks share: the names that are declared, the policy as far as it is made, and what is said about it.

use std::collections::{HashMap, HashSet};

use larder_source::{Diagnostic, Severity, Span};

use crate::ast::{Version, Word};
use crate::policy::{AclId, BackendId, HeaderId, ObjectId, Policy, ProbeId, Regex, RegexId, SubId};
use crate::steps::{Action, Steps};
use crate::types::with_article;
use crate::vars::Headers;
use crate::{DIAGNOSTICS_MAX, Options, RegexCheck};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symbol {
    /// A backend.
    Backend(BackendId),
    /// A probe.
    Probe(ProbeId),
    /// An ACL.
    Acl(AclId),
    /// A sub.
    Sub(SubId),
    /// An object of a module.
    Object(ObjectId),
    /// A module, by its place in the list of all.
    Module(usize),
}

impl Symbol {
    /// What it is, for messages.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Backend(_) => "backend",
            Self::Probe(_) => "probe",
            Self::Acl(_) => "ACL",
            Self::Sub(_) => "sub",
            Self::Object(_) => "object",
            Self::Module(_) => "module",
        }
    }

    /// The same with its article.
    pub fn described(self) -> String {
        with_article(self.describe())
    }
}

/// A name that was declared.
#[derive(Clone, Copy, Debug)]
pub struct Declared {
    /// What it stands for.
    pub symbol: Symbol,
    /// Where.
    pub span: Span,
    /// Whether something refers to it, or nothing has to.
    pub is_used: bool,
}

/// What a sub does with something that not every sub may do.
#[derive(Clone, Debug)]
pub struct Use {
    /// The variable, statement or function.
    pub name: String,
    /// What is done with it.
    pub deed: Deed,
    /// Where.
    pub span: Span,
    /// In which subs it is allowed.
    pub allowed: Steps,
}

/// What is done with a variable, a statement or a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A variable is read.
    Read,
    /// A variable is set.
    Set,
    /// A variable is unset.
    Unset,
    /// A statement stands there, or a function is called.
    Call,
}

/// What the parts of a sub do, all together.
#[derive(Clone, Debug, Default)]
pub struct Deeds {
    /// What not every sub may do.
    pub uses: Vec<Use>,
    /// Which subs are called.
    pub calls: Vec<(SubId, Span)>,
    /// What is returned.
    pub returns: Vec<(Action, Span)>,
}

/// What the checks share.
pub struct Cx<'a> {
    /// Says whether a pattern is a regular expression.
    pub regex: RegexCheck<'a>,
    /// The version of the VCL.
    pub version: Version,
    /// What was made of it so far.
    pub policy: Policy,
    /// The labels that there are.
    pub labels: Vec<String>,
    /// The groups of servers that there are beside the VCL.
    pub upstreams: Vec<String>,
    /// How many of the probes with names are declared above what is checked.
    pub probes_above: usize,
    /// The names of all objects, also of those whose `new` stands below what is checked.
    pub objects_to_come: HashSet<String>,
    /// What each sub does, in the order of the policy.
    pub deeds: Vec<Deeds>,
    /// The sub whose statements are checked.
    pub sub: SubId,
    names: HashMap<String, Declared>,
    /// In VCL 4.0 a sub may have the name of something else.
    sub_names: HashMap<String, Declared>,
    /// What would be declared if its declaration were not wrong, which is reported.
    spoiled: HashSet<String>,
    header_names: HashMap<(Headers, String), HeaderId>,
    errors: usize,
    warnings: usize,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl<'a> Cx<'a> {
    /// Begins with an empty policy.
    pub fn new(
        version: Version,
        options: &Options,
        regex: RegexCheck<'a>,
        diagnostics: &'a mut Vec<Diagnostic>,
    ) -> Self {
        let policy = Policy {
            version,
            backends: Vec::new(),
            default_backend: None,
            probes: Vec::new(),
            default_probe: None,
            acls: Vec::new(),
            subs: Vec::new(),
            steps: Vec::new(),
            objects: Vec::new(),
            headers: Vec::new(),
            regexes: Vec::new(),
            storages: options.storages.clone(),
            labels: Vec::new(),
            modules: Vec::new(),
        };
        Self {
            regex,
            version,
            policy,
            labels: options.labels.clone(),
            upstreams: options.upstreams.clone(),
            probes_above: 0,
            objects_to_come: HashSet::new(),
            deeds: Vec::new(),
            sub: SubId(0),
            names: HashMap::new(),
            sub_names: HashMap::new(),
            spoiled: HashSet::new(),
            header_names: HashMap::new(),
            errors: 0,
            warnings: 0,
            diagnostics,
        }
    }

    /// Reports something.
    #[allow(clippy::boxed_local, reason = "diagnostics are made in boxes")]
    pub fn report(&mut self, diagnostic: Box<Diagnostic>) {
        let count = match diagnostic.severity {
            Severity::Error => &mut self.errors,
            Severity::Warning | Severity::Notice | Severity::NoEffect => &mut self.warnings,
        };
        *count += 1;
        if *count <= DIAGNOSTICS_MAX {
            self.diagnostics.push(*diagnostic);
        }
    }

    /// Reports something that leaves no value.
    pub fn fail<T>(&mut self, diagnostic: Box<Diagnostic>) -> Option<T> {
        self.report(diagnostic);
        None
    }

    /// Whether nothing was reported that is an error.
    pub fn is_sound(&self) -> bool {
        self.errors == 0
    }

    /// Whether there are so many errors that nobody reads more.
    pub fn is_full(&self) -> bool {
        self.errors >= DIAGNOSTICS_MAX
    }

    /// Declares a name, unless it stands for something already. Case does not count in names.
    pub fn declare(&mut self, name: &Word, symbol: Symbol, is_used: bool) -> bool {
        if let Some(reserved) = reserved(&name.text, symbol, self.version) {
            let message = format!("\"{}\" cannot be the name of {}", name.text, symbol.described());
            self.report(Diagnostic::error(message).at(name.span).label(reserved));
            return false;
        }
        let key = name.text.to_ascii_lowercase();
        let declared = Declared { symbol, span: name.span, is_used };
        let names = match symbol {
            Symbol::Sub(_) if self.version == Version::V40 => &mut self.sub_names,
            _ => &mut self.names,
        };
        let Some(known) = names.get(&key) else {
            names.insert(key, declared);
            return true;
        };
        let message = format!("the name \"{}\" is given twice", name.text);
        let first = format!("here it is the name of {}", known.symbol.described());
        let diagnostic = Diagnostic::error(message).at(name.span).related(known.span, first);
        self.report(diagnostic);
        false
    }

    /// What a name stands for.
    pub fn find(&self, name: &str) -> Option<Symbol> {
        let key = name.to_ascii_lowercase();
        self.names.get(&key).or_else(|| self.sub_names.get(&key)).map(|declared| declared.symbol)
    }

    /// The sub of a name.
    pub fn find_sub(&self, name: &str) -> Option<SubId> {
        let key = name.to_ascii_lowercase();
        [self.sub_names.get(&key), self.names.get(&key)].into_iter().flatten().find_map(|declared| {
            match declared.symbol {
                Symbol::Sub(sub) => Some(sub),
                _ => None,
            }
        })
    }

    /// Notes that the declaration of a name is wrong, so that its uses are not reported too.
    pub fn spoil(&mut self, name: &str) {
        self.spoiled.insert(name.to_ascii_lowercase());
    }

    /// Whether the declaration of a name is wrong.
    pub fn is_spoiled(&self, name: &str) -> bool {
        self.spoiled.contains(&name.to_ascii_lowercase())
    }

    /// Notes that something refers to what a name stands for.
    pub fn refer_to(&mut self, name: &str, symbol: Symbol) {
        let key = name.to_ascii_lowercase();
        for names in [&mut self.names, &mut self.sub_names] {
            if let Some(declared) = names.get_mut(&key).filter(|declared| declared.symbol == symbol) {
                declared.is_used = true;
            }
        }
    }

    /// All names, in the order of their declarations.
    pub fn declared(&self) -> Vec<Declared> {
        let mut all: Vec<_> = self.names.values().chain(self.sub_names.values()).copied().collect();
        all.sort_by_key(|declared| declared.span);
        all
    }

    /// All names as they are compared, for suggestions.
    pub fn names(&self) -> Vec<&str> {
        let mut all: Vec<_> = self.names.keys().chain(self.sub_names.keys()).map(String::as_str).collect();
        all.sort_unstable();
        all
    }

    /// What the sub that is being checked does.
    pub fn deeds(&mut self) -> &mut Deeds {
        &mut self.deeds[self.sub.0]
    }

    /// The place of the name of a header of such a message.
    pub fn header(&mut self, of: Headers, name: &str) -> HeaderId {
        let next = HeaderId(self.policy.headers.len() as u32);
        let id = *self.header_names.entry((of, name.to_ascii_lowercase())).or_insert(next);
        if id == next {
            self.policy.headers.push(name.to_owned());
        }
        id
    }

    /// The place of a regular expression, if it is one.
    pub fn regex(&mut self, text: &[u8], span: Span) -> Option<RegexId> {
        let Ok(pattern) = std::str::from_utf8(text) else {
            return self.fail(Diagnostic::error("the regular expression is not valid UTF-8").at(span));
        };
        if let Err(reason) = (self.regex)(pattern) {
            return self.fail(Diagnostic::error(format!("this is no regular expression: {reason}")).at(span));
        }
        let id = RegexId(self.policy.regexes.len() as u32);
        self.policy.regexes.push(Regex { pattern: pattern.to_owned(), span });
        Some(id)
    }
}

/// Why a name cannot be declared, if so.
fn reserved(name: &str, symbol: Symbol, version: Version) -> Option<&'static str> {
    const STATEMENTS: [&str; 13] = [
        "ban",
        "call",
        "hash_data",
        "if",
        "new",
        "return",
        "set",
        "synthetic",
        "unset",
        "regsub",
        "regsuball",
        "true",
        "false",
    ];
    const VARIABLES: [&str; 5] = ["now", "req", "bereq", "beresp", "resp"];
    const DECLARATIONS: [&str; 7] = ["acl", "sub", "backend", "probe", "import", "vcl", "unused"];
    let is_one_of = |words: &[&str]| words.iter().any(|word| word.eq_ignore_ascii_case(name));
    let may_be_default = matches!(symbol, Symbol::Backend(_) | Symbol::Probe(_));
    let is_of_vcl = name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("vcl_"));
    if is_one_of(&STATEMENTS) {
        return Some("it is a word of the language");
    }
    if is_one_of(&VARIABLES) {
        return Some("it is a variable");
    }
    if version >= Version::V41 && is_one_of(&DECLARATIONS) {
        return Some("it is a word of the language since VCL 4.1");
    }
    if is_one_of(&["default"]) && !may_be_default {
        return Some("only a backend or a probe has this name");
    }
    if version >= Version::V41 && is_of_vcl && !matches!(symbol, Symbol::Sub(_)) {
        return Some("names with vcl_ are reserved");
    }
    None
}
