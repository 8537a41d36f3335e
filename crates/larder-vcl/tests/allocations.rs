//! A hit allocates nothing in the subs that it goes through.
//!
//! In a test binary of its own, as the counting allocator counts for the whole process.

use std::alloc::System;
use std::path::Path;

use larder_source::MemoryLoader;
use larder_vcl::policy::{Header, Place, Property, RegexId};
use larder_vcl::program::{Callee, Named};
use larder_vcl::run::{Failure, Host, Machine, Text, Texts, Value};
use larder_vcl::steps::{Action, Step};
use larder_vcl::types::Type;
use larder_vcl::vars::Variable;
use larder_vcl::{Options, compile, load};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A GET whose headers are all the same text, and that nothing changes.
struct Request;

impl Host for Request {
    fn get(&mut self, place: Place, texts: &mut Texts<'_>) -> Result<Value, Failure> {
        let text: &[u8] = match place {
            Place::Variable(Variable::ReqMethod) => b"GET",
            Place::Variable(Variable::ReqUrl) => b"/a/page?b=1",
            Place::Variable(Variable::ObjHits) => return Ok(Value::Int(3)),
            Place::Variable(Variable::ObjTtl) => return Ok(Value::Real(60.0)),
            Place::Variable(variable) if variable.rule().ty == Type::Int => return Ok(Value::Int(0)),
            Place::Header(header) if header.name.0 == 0 => b"Example.COM",
            Place::Variable(_) | Place::Header(_) => return Ok(Value::Text(None)),
        };
        Ok(Value::Text(Some(texts.keep(text)?)))
    }

    fn set(&mut self, _: Place, _: Value, _: &mut Texts<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn set_line(&mut self, _: Header, _: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    fn append(&mut self, _: Variable, _: Value, _: &mut Texts<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn unset(&mut self, _: Place) -> Result<(), Failure> {
        Ok(())
    }

    fn matches(&self, _: RegexId, subject: &[u8]) -> Result<bool, Failure> {
        Ok(subject.contains(&b'E'))
    }

    fn substitute(
        &mut self,
        _: RegexId,
        _: bool,
        _: Option<Text>,
        _: Option<Text>,
        _: &mut Texts<'_>,
    ) -> Result<Option<Text>, Failure> {
        Ok(None)
    }

    fn name(&mut self, _: Named, _: u32, _: &mut Texts<'_>) -> Result<Option<Text>, Failure> {
        Ok(None)
    }

    fn property(&mut self, _: Property, of: Value, _: &mut Texts<'_>) -> Result<Value, Failure> {
        Ok(of)
    }

    fn call(&mut self, _: Callee, _: &[Value], _: &mut Texts<'_>) -> Result<Value, Failure> {
        Ok(Value::Bool(true))
    }

    fn hash_data(&mut self, _: &[u8]) -> Result<(), Failure> {
        Ok(())
    }

    fn synthetic(&mut self, _: Value, _: &mut Texts<'_>) -> Result<(), Failure> {
        Ok(())
    }

    fn ban(&mut self, _: &[u8]) -> Result<(), Failure> {
        Ok(())
    }
}

#[test]
fn a_hit_allocates_nothing_in_its_subs() {
    let shop = "
        sub vcl_recv {
            if (req.http.host ~ \"E\") { set req.http.host = req.http.host.lower(); }
            if (req.method == \"PURGE\") { return (synth(405)); }
            set req.http.grace = \"none\"; set req.url = regsub(req.url, \"^https?://\", \"\") + \"\";
            if (req.http.Cookie ~ \"session\" || req.restarts > 0) { return (pass); }
            return (hash);
        }
        sub vcl_hash { if (req.http.X-Device) { hash_data(req.http.X-Device + req.url); } }
        sub vcl_hit { if (obj.ttl + 3600s > 0s) { return (deliver); } }
        sub vcl_deliver { if (obj.hits > 0) { set resp.http.X-Cache = \"HIT \" + obj.hits; } unset resp.http.Via; }";
    for (body, whose) in [("", "the builtin VCL alone"), (shop, "a shop's")] {
        let mut loader = MemoryLoader::new();
        loader.add("a.vcl", format!("vcl 4.1;\nbackend default none;\n{body}"));
        let loaded = load(Path::new("a.vcl"), &Options::default(), &mut loader, &|_| Ok(())).expect("it is sound");
        let program = compile(&loaded.policy, &|_| Vec::new()).expect("it has no names");
        let mut machine = Machine::default();
        let mut hit = || {
            for (step, action) in [
                (Step::Recv, Action::Hash),
                (Step::Hash, Action::Lookup),
                (Step::Hit, Action::Deliver),
                (Step::Deliver, Action::Deliver),
            ] {
                let start = program.of_step(step).expect("each step has a sub");
                let verdict = machine.run(&program, start, 65_536, &mut Request).expect("nothing fails");
                assert_eq!(verdict.action, Some(action), "{whose}");
            }
        };
        hit();
        let region = Region::new(COUNTING);
        (0..100).for_each(|_| hit());
        assert_eq!(region.change().allocations + region.change().reallocations, 0, "{whose}");
    }
}
