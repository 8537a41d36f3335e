//! `vcl_init`: makes the objects of a VCL, or refuses the VCL.

use larder_conf::{Diagnostic, Span};
use larder_vcl::Policy;
use larder_vcl::modules::pure;
use larder_vcl::parameters::Parameters;
use larder_vcl::policy::{Header, Place, Property, RegexId};
use larder_vcl::program::{Callee, Named, Program};
use larder_vcl::run::{Failure, Host, Machine, Text, Texts, Value, Verdict};
use larder_vcl::steps::{Action, Step};
use larder_vcl::vars::Variable;

use crate::directors::{Judge, TaskSets};
use crate::regex::Regex;

use super::{Caller, Objects, parameter, texts as regex_texts};

/// What `vcl_init` knows.
pub struct Surroundings {
    /// `server.hostname`
    pub hostname: String,
    /// `server.identity`
    pub identity: String,
    /// The parameters, for `param`.
    pub parameters: Parameters,
    /// Now, in seconds since 1970.
    pub now: f64,
}

/// Runs `vcl_init`. Returns the objects with notices, or why the VCL is refused.
pub fn initialize(
    policy: &Policy,
    program: &Program,
    regexes: &[Regex],
    surroundings: &Surroundings,
) -> Result<(Objects, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut machine = Machine::default();
    let mut init =
        Init { policy, regexes, surroundings, objects: Objects::new(policy, surroundings.now), notes: vec![] };
    let bytes_max = usize::try_from(surroundings.parameters.workspace_client).unwrap_or(usize::MAX);
    let result = match program.of_step(Step::Init) {
        Some(start) => machine.run(program, start, bytes_max, &mut init),
        None => return Ok((init.objects, Vec::new())),
    };
    let place = program.place_of(machine.ended_at());
    let why = match result {
        Ok(verdict) if verdict.action == Some(Action::Ok) => None,
        Ok(verdict) => Some(reason(program, &machine, verdict)),
        Err(failure) => Some(failure.to_string()),
    };
    match why {
        None => {
            let settled = init.objects.directors.settle();
            let notices = init.notes.into_iter().chain(settled).map(|note| *at(Diagnostic::notice(note), None));
            Ok((init.objects, notices.collect()))
        }
        Some(why) => Err(vec![*at(Diagnostic::error(format!("vcl_init failed: {why}")), place)]),
    }
}

/// What `return (fail("..."))` says.
fn reason(program: &Program, machine: &Machine, verdict: Verdict) -> String {
    let said = machine.values(verdict).iter().find_map(|value| match value {
        Value::Text(text) => Some(String::from_utf8_lossy(machine.bytes(program, *text)).into_owned()),
        _ => None,
    });
    said.unwrap_or_else(|| "return (fail)".to_owned())
}

fn at(diagnostic: Box<Diagnostic>, place: Option<Span>) -> Box<Diagnostic> {
    match place {
        Some(place) => diagnostic.at(place),
        None => diagnostic,
    }
}

/// A run of `vcl_init`, which belongs to no request.
struct Init<'a> {
    policy: &'a Policy,
    regexes: &'a [Regex],
    surroundings: &'a Surroundings,
    objects: Objects,
    notes: Vec<String>,
}

impl Init<'_> {
    fn function(&self, module: &str, name: &str, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
        match (module, name, args) {
            ("std", "log" | "timestamp", [Value::Text(_)]) | ("std", "syslog", [Value::Int(_), Value::Text(_)]) => {
                Ok(Value::Nothing)
            }
            ("std", "now", []) => Ok(Value::Real(self.surroundings.now)),
            ("std", "healthy", [Value::Id(backend)]) => {
                Ok(Value::Bool(backend.is_some_and(|backend| self.objects.directors.is_healthy(backend))))
            }
            ("directors", "lookup", [Value::Text(name)]) => {
                let name = String::from_utf8_lossy(texts.bytes(*name));
                Ok(Value::Id(self.objects.directors.find(&name)))
            }
            _ => Err(Failure::host(format!("{module}.{name}() does not work in vcl_init yet"))),
        }
    }
}

impl Host for Init<'_> {
    fn get(&mut self, place: Place, texts: &mut Texts<'_>) -> Result<Value, Failure> {
        let Place::Variable(variable) = place else { return Err(no_request()) };
        match variable {
            Variable::Now => Ok(Value::Real(self.surroundings.now)),
            Variable::ServerHostname => Ok(Value::Text(Some(texts.keep(self.surroundings.hostname.as_bytes())?))),
            Variable::ServerIdentity => Ok(Value::Text(Some(texts.keep(self.surroundings.identity.as_bytes())?))),
            variable => parameter::get(&self.surroundings.parameters, variable).ok_or_else(no_request),
        }
    }

    fn set(&mut self, _: Place, _: Value, _: &mut Texts<'_>) -> Result<(), Failure> {
        Err(no_request())
    }

    fn set_line(&mut self, _: Header, _: &[u8]) -> Result<(), Failure> {
        Err(no_request())
    }

    fn append(&mut self, _: Variable, _: Value, _: &mut Texts<'_>) -> Result<(), Failure> {
        Err(no_request())
    }

    fn unset(&mut self, _: Place) -> Result<(), Failure> {
        Err(no_request())
    }

    fn matches(&self, regex: RegexId, subject: &[u8]) -> Result<bool, Failure> {
        regex_texts::matches(self.regexes, regex, subject)
    }

    fn substitute(
        &mut self,
        regex: RegexId,
        all: bool,
        subject: Option<Text>,
        with: Option<Text>,
        texts: &mut Texts<'_>,
    ) -> Result<Option<Text>, Failure> {
        regex_texts::substitute(self.regexes, regex, all, [subject, with], texts)
    }

    fn name(&mut self, kind: Named, number: u32, texts: &mut Texts<'_>) -> Result<Option<Text>, Failure> {
        name_of(self.policy, &self.objects, kind, number, texts)
    }

    fn property(&mut self, _: Property, _: Value, _: &mut Texts<'_>) -> Result<Value, Failure> {
        Err(no_request())
    }

    fn call(&mut self, callee: Callee, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
        match callee {
            Callee::New(object) => {
                let ty = self.policy.objects.get(object.0 as usize).map(|object| object.ty);
                let ty = ty.ok_or_else(|| Failure::host("an object that is not there"))?;
                self.objects.make(object.0 as usize, ty, args, texts)
            }
            Callee::Method(object, method) => {
                let mut caller = Caller {
                    step: Step::Init,
                    now: self.surroundings.now,
                    share: &|| 0.0,
                    page: None,
                    url: b"",
                    task: None::<&mut TaskSets>,
                    notes: Vec::new(),
                };
                let value = self.objects.call((object, method), args, &mut caller, texts);
                self.notes.extend(caller.notes);
                value
            }
            Callee::Function(function) => match pure(function) {
                Some(pure) => pure(args, texts),
                None => self.function(function.module(), function.function().name, args, texts),
            },
        }
    }

    fn hash_data(&mut self, _: &[u8]) -> Result<(), Failure> {
        Err(no_request())
    }

    fn synthetic(&mut self, _: Value, _: &mut Texts<'_>) -> Result<(), Failure> {
        Err(no_request())
    }

    fn ban(&mut self, _: &[u8]) -> Result<(), Failure> {
        Err(no_request())
    }
}

fn no_request() -> Failure {
    Failure::host("vcl_init belongs to no request")
}

/// The name of what is known by its number.
pub fn name_of(
    policy: &Policy,
    objects: &Objects,
    kind: Named,
    number: u32,
    texts: &mut Texts<'_>,
) -> Result<Option<Text>, Failure> {
    let at = number as usize;
    let name = match kind {
        Named::Acl => policy.acls.get(at).map(|acl| acl.name.as_str()),
        Named::Backend => objects.directors.name(number),
        Named::Probe => policy.probes.get(at).and_then(|probe| probe.name.as_deref()),
        Named::Storage => {
            let Some(name) = policy.storages.get(at) else { return Ok(None) };
            return Ok(Some(texts.keep(format!("storage.{name}").as_bytes())?));
        }
    };
    Ok(name.map(|name| texts.keep(name.as_bytes())).transpose()?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use larder_conf::MemoryLoader;
    use larder_vcl::{Options, compile};

    use crate::directors::{Admin, Asker, Listed, Number};

    use super::*;

    /// The objects of a VCL with the backends a, b and c, or why it is refused: the text of the place, and the message.
    fn objects(init: &str) -> Result<(Objects, Vec<String>), (String, String)> {
        let backends = ["a", "b", "c"].map(|name| format!("backend {name} {{ .host = \"192.0.2.1\"; }}\n")).concat();
        let text =
            format!("vcl 4.1; import directors; import std; import blob;\n{backends}sub vcl_init {{\n{init}\n}}");
        let mut loader = MemoryLoader::new();
        loader.add("a.vcl", text.as_bytes().to_vec());
        let is_regex = |pattern: &str| Regex::new(pattern, false).map(drop);
        let options = Options { allows_unused: true, ..Options::default() };
        let loaded = match larder_vcl::load(Path::new("a.vcl"), &options, &mut loader, &is_regex) {
            Ok(loaded) => loaded,
            Err(failed) => panic!("{}", larder_vcl::render(&failed.diagnostics, &failed.sources)),
        };
        let policy = loaded.policy;
        let program = compile(&policy, &|_| Vec::new()).expect("it has no names");
        let regexes = policy.regexes.iter().map(|regex| Regex::new(&regex.pattern, false).expect("it was checked"));
        let regexes: Vec<Regex> = regexes.collect();
        let surroundings = Surroundings {
            hostname: "here".to_owned(),
            identity: "me".to_owned(),
            parameters: Parameters::default(),
            now: 1000.0,
        };
        match initialize(&policy, &program, &regexes, &surroundings) {
            Ok((objects, notices)) => Ok((objects, notices.into_iter().map(|notice| notice.message).collect())),
            Err(errors) => {
                let place = errors[0].span.expect("it has a place");
                Err((text[place.start as usize..place.end as usize].to_owned(), errors[0].message.clone()))
            }
        }
    }

    fn chosen(objects: &Objects, of: Number) -> Option<&str> {
        let asker = Asker { now: 1000.0, share: &|| 0.5, page: None, url: b"/", task: None };
        objects.directors.resolve(of, &asker).and_then(|backend| objects.directors.name(backend))
    }

    #[test]
    fn what_fails_is_named_with_its_place() {
        for (init, place, message) in [
            ("return (fail(\"no \" + server.hostname));", "return (fail(\"no \" + server.hostname))", "no here"),
            ("return (fail);", "return (fail)", "return (fail)"),
            (
                "if (std.integer(\"x\") == 1) { return (ok); } else if (std.real(\"y\") > 1.0) { return (ok); }",
                "std.integer(\"x\") == 1",
                "",
            ),
            (
                "new d = directors.shard();\nd.backend(resolve=NOW);",
                "d.backend(resolve=NOW)",
                "vmod_directors: shard d: .backend(resolve=NOW) cannot be used in vcl_init{}/vcl_fini{}",
            ),
            (
                "new d = directors.random();\nd.add_backend(directors.lookup(\"x\"), 1.0);",
                "d.add_backend(directors.lookup(\"x\"), 1.0)",
                "d: None backend cannot be added",
            ),
            (
                "if (false) { new d = directors.hash(); }\nd.add_backend(a);",
                "d.add_backend(a)",
                "the object was not made in vcl_init",
            ),
        ] {
            match objects(init) {
                Ok(_) => panic!("{init} is accepted"),
                Err((found, why)) => {
                    assert!(found.contains(place.trim_end_matches(';')), "{init}: {found}");
                    assert!(why.contains(message), "{init}: {why}");
                }
            }
        }
    }

    #[test]
    fn objects_are_made_and_know_what_is_pure() {
        let init =
            "if (server.hostname ~ \"^he\" && param.default_ttl > 0s && regsub(\"ab\", \"b\", \"c\") == \"ac\") {
                new d = directors.fallback();
            }
            d.add_backend(b);
            d.add_backend(directors.lookup(\"c\"));
            new s = directors.shard();
            s.add_backend(a, weight=0.5);
            s.add_backend(a);
            return (ok);";
        let (objects, notices) = objects(init).expect("it is accepted");
        let d = objects.directors.find("d").expect("it was made");
        assert_eq!((d, chosen(&objects, d)), (4, Some("b")));
        assert_eq!(chosen(&objects, objects.directors.find("s").expect("it was made")), Some("a"), "the ring is built");
        let expected = [
            "vmod_directors: shard s: .add_backend(weight=0.500000) ignored",
            "vmod_directors: shard s: backend a already exists - skipping",
        ];
        assert_eq!(notices, expected);
    }

    #[test]
    fn directors_above_directors_choose_who_is_healthy() {
        let init = "new low = directors.round_robin(); low.add_backend(a); low.add_backend(b);
            new none = directors.random();
            new top = directors.fallback();
            top.add_backend(none.backend()); top.add_backend(low.backend()); top.add_backend(c);
            new ring = directors.shard(); ring.add_backend(top.backend());";
        let (objects, _) = objects(init).expect("it is accepted");
        let directors = &objects.directors;
        let number = |name: &str| directors.find(name).expect("it is there");
        for (sick, top, ring) in [
            (vec![], ["a", "b", "a"].map(Some), Some("b")),
            (vec!["a"], ["b", "b", "b"].map(Some), Some("b")),
            (vec!["a", "b"], ["c", "c", "c"].map(Some), Some("c")),
            (vec!["low"], ["c", "c", "c"].map(Some), Some("c")),
            (vec!["a", "b", "c"], [None; 3], None),
            (vec!["top"], ["a", "b", "a"].map(Some), None),
        ] {
            for name in ["a", "b", "c", "low", "top", "ring"] {
                let admin = if sick.contains(&name) { Admin::Sick } else { Admin::Auto };
                assert!(directors.set_health(name, admin, 2000.0), "{name}");
            }
            let found = [(); 3].map(|()| chosen(&objects, number("top")));
            assert_eq!(found, top, "sick {sick:?}");
            assert_eq!(chosen(&objects, number("ring")), ring, "sick {sick:?}");
            assert_eq!(directors.is_healthy(number("ring")), ring.is_some(), "sick {sick:?}");
        }
        assert_eq!(chosen(&objects, number("none")), None);
        assert!(!directors.set_health("nobody", Admin::Sick, 1.0));
    }

    #[test]
    fn a_director_that_leads_back_is_left_out() {
        let init = "new d = directors.random(); new e = directors.round_robin(); new s = directors.shard();
            e.add_backend(d.backend()); s.add_backend(e.backend()); s.reconfigure();
            d.add_backend(s.backend(), 1.0); d.add_backend(d.backend(), 1.0); d.add_backend(a, 1.0);";
        let (objects, notices) = objects(init).expect("it is accepted");
        let expected = ["s", "d"].map(|name| format!("d: {name} has this director among its own, and is left out"));
        assert_eq!(notices, expected);
        assert_eq!(chosen(&objects, objects.directors.find("s").expect("it was made")), Some("a"));
    }

    #[test]
    fn an_operator_sees_backends_and_directors() {
        let init = "new d = directors.hash(); d.add_backend(a); d.add_backend(b, 2.0);
            new p = directors.shard_param(); new bytes = blob.blob(HEX, \"00\");";
        let (objects, _) = objects(init).expect("it is accepted");
        assert!(objects.directors.set_health("b", Admin::Sick, 2000.0));
        let line = |listed: &Listed| {
            let Listed { name, kind, admin, is_judged, good, of, is_healthy, changed, .. } = listed;
            format!("{name} {kind} {admin:?} {is_judged} {good}/{of} {is_healthy} {changed}")
        };
        let lines: Vec<String> = objects.directors.list().iter().map(line).collect();
        let expected = [
            "a backend Auto false 0/0 true 1000",
            "b backend Sick false 0/0 false 2000",
            "c backend Auto false 0/0 true 1000",
            "d hash Auto false 1/2 true 1000",
        ];
        assert_eq!(lines, expected);
    }
}
