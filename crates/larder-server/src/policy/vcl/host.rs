//! What a run of a sub needs of its request.

use std::net::IpAddr;

use larder_vcl::AclVerdict;
use larder_vcl::policy::{Header, Place, Property, RegexId};
use larder_vcl::program::{Callee, Named};
use larder_vcl::run::{Failure, Held, Host, Text, Texts, Value};
use larder_vcl::vars::{Headers, Variable};
use larder_vsl::Tag;

use crate::exchange::Exchange;
use crate::objects::{name_of, texts};
use crate::regex::BytesSeen;

use super::task::Run;
use super::variables::client::client_address;
use super::{bans, directors, functions, headers, variables};

impl Host for Run<'_> {
    fn get(&mut self, place: Place, texts: &mut Texts<'_>) -> Result<Value, Failure> {
        match place {
            Place::Variable(variable) => variables::get(self, variable, texts),
            Place::Header(header) => headers::get(self, header, texts),
        }
    }

    fn held_address(&self, variable: Variable) -> Option<IpAddr> {
        match variable {
            Variable::ClientIp => client_address(self.ex).map(|address| address.ip()),
            _ => None,
        }
    }

    fn asked_acl(&mut self, verdict: &AclVerdict<'_>) {
        if let Some(open) = self.log() {
            open.say(Tag::VclAcl, format_args!("{verdict}"));
        }
    }

    fn held(&self, place: Place) -> Held<'_> {
        let ex = &*self.ex;
        match place {
            Place::Header(header) => headers::held(self, header),
            Place::Variable(Variable::ReqUrl) => Held::Text(Some(ex.asked.head.target())),
            Place::Variable(Variable::ReqMethod) => Held::Text(Some(ex.asked.head.method_name())),
            Place::Variable(Variable::BereqUrl) => Held::Text(Some(ex.vcl.fetch.bereq.target())),
            Place::Variable(Variable::BereqMethod) => Held::Text(Some(ex.vcl.fetch.bereq.method_name())),
            Place::Variable(_) => Held::Not,
        }
    }

    fn set(&mut self, place: Place, value: Value, texts: &mut Texts<'_>) -> Result<(), Failure> {
        match place {
            Place::Variable(variable) => {
                if variable == Variable::ReqUrl {
                    self.url.set(None);
                }
                variables::set(self, variable, value, texts)
            }
            Place::Header(header) => headers::set(self, header, value, texts),
        }
    }

    fn set_line(&mut self, header: Header, line: &[u8]) -> Result<(), Failure> {
        headers::set_line(self, header, line)
    }

    fn append(&mut self, _: Variable, value: Value, texts: &mut Texts<'_>) -> Result<(), Failure> {
        self.synthetic(value, texts)
    }

    fn unset(&mut self, place: Place) -> Result<(), Failure> {
        match place {
            Place::Variable(variable) => variables::unset(self, variable),
            Place::Header(header) => headers::unset(self, header),
        }
    }

    fn unset_all(&mut self, number: u32, _: &[Header]) -> Result<(), Failure> {
        headers::unset_all(self, number)
    }

    fn matches(&self, regex: RegexId, subject: &[u8]) -> Result<bool, Failure> {
        texts::matches(&self.policy.vcl.regexes, regex, subject)
    }

    fn rules_out(&self, place: Place, regex: RegexId) -> bool {
        if place != Place::Variable(Variable::ReqUrl) {
            return false;
        }
        let seen = self.url.get().unwrap_or_else(|| self.look_at_url());
        texts::regex_of(&self.policy.vcl.regexes, regex).is_ok_and(|regex| !regex.may_match(seen))
    }

    fn held_matches(&self, place: Place, regex: RegexId) -> Result<Option<bool>, Failure> {
        let regex = texts::regex_of(&self.policy.vcl.regexes, regex)?;
        let Held::Text(text) = self.held(place) else { return Ok(None) };
        let text = text.unwrap_or_default();
        regex.is_match(text).map(Some).map_err(texts::failed)
    }

    fn substitute(
        &mut self,
        regex: RegexId,
        all: bool,
        subject: Option<Text>,
        with: Option<Text>,
        texts: &mut Texts<'_>,
    ) -> Result<Option<Text>, Failure> {
        texts::substitute(&self.policy.vcl.regexes, regex, all, [subject, with], texts)
    }

    fn name(&mut self, kind: Named, number: u32, texts: &mut Texts<'_>) -> Result<Option<Text>, Failure> {
        name_of(&self.policy.vcl.policy, &self.policy.vcl.objects, kind, number, texts)
    }

    fn named_header(&mut self, of: Headers, name: Option<Text>, texts: &mut Texts<'_>) -> Result<Value, Failure> {
        let field = headers::Field::of(Value::NamedHeader(of, name), self, texts)?;
        let value = headers::fields(field.of, self.ex).and_then(|fields| fields.get(&field.name));
        Ok(Value::Text(value.map(|value| texts.keep(value)).transpose()?))
    }

    fn property(&mut self, property: Property, of: Value, _: &mut Texts<'_>) -> Result<Value, Failure> {
        match (property, of) {
            (Property::Resolve, Value::Id(backend)) => {
                Ok(Value::Id(backend.and_then(|backend| directors::resolve(self, backend))))
            }
            (Property::Happy, _) => Ok(Value::Bool(true)),
            (Property::FreeSpace | Property::UsedSpace, _) => Ok(Value::Bytes(0)),
            (Property::Resolve | Property::Upper | Property::Lower, _) => {
                Err(Failure::host("a property of another type"))
            }
        }
    }

    fn call(&mut self, callee: Callee, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
        functions::call(self, callee, args, texts)
    }

    fn hash_data(&mut self, text: &[u8]) -> Result<(), Failure> {
        let key = &mut self.ex.upstream.cache_key;
        key.extend_from_slice(text);
        key.push(BEHIND_EACH);
        Ok(())
    }

    fn hash_held(&mut self, place: Place) -> Result<bool, Failure> {
        if place == Place::Variable(Variable::ReqUrl) {
            let Exchange { asked, upstream, .. } = &mut *self.ex;
            upstream.cache_key.extend_from_slice(asked.head.target());
            upstream.cache_key.push(BEHIND_EACH);
            return Ok(true);
        }
        let mut key = std::mem::take(&mut self.ex.upstream.cache_key);
        let is_held = match self.held(place) {
            Held::Text(text) => {
                key.extend_from_slice(text.unwrap_or_default());
                key.push(BEHIND_EACH);
                true
            }
            Held::Not => false,
        };
        self.ex.upstream.cache_key = key;
        Ok(is_held)
    }

    fn synthetic(&mut self, body: Value, texts: &mut Texts<'_>) -> Result<(), Failure> {
        let text = match body {
            Value::Text(text) => text,
            Value::Blob(blob) => Some(blob),
            _ => return Err(Failure::host("a body of another type")),
        };
        self.ex.vcl.body.extend_from_slice(texts.bytes(text));
        Ok(())
    }

    fn ban(&mut self, expression: &[u8]) -> Result<(), Failure> {
        bans::ban(self, expression);
        Ok(())
    }
}

impl Run<'_> {
    /// Finds out which bytes `req.url` has.
    #[cold]
    fn look_at_url(&self) -> BytesSeen {
        let seen = BytesSeen::of(self.ex.asked.head.target());
        self.url.set(Some(seen));
        seen
    }
}

/// What stands behind each text of a key, so that a text and the next one are not one. Varnish hashes the same, so that
/// its shard directors and ours choose the same backends.
const BEHIND_EACH: u8 = 0;
