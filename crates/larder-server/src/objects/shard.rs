//! Shard directors, and sets of arguments for them.

use larder_vcl::run::{Failure, Text, Texts, Value};
use larder_vcl::steps::{Step, Steps};
use parking_lot::Mutex;

use crate::directors::{Asked, By, Change, Director, Directors, Healthy, Set, Shard, hash, shown};

use super::{Caller, misfit};

/// Calls a method of a shard director.
pub fn call(
    directors: &Directors,
    object: usize,
    shard: &Shard,
    name: &str,
    args: &[Value],
    caller: &mut Caller<'_>,
    texts: &mut Texts<'_>,
) -> Result<Value, Failure> {
    let own_name = directors.name(directors.number(object)).unwrap_or_default();
    Ok(match (name, args) {
        ("set_warmup", [Value::Real(share)]) => {
            match (0.0..1.0).contains(share) {
                true => shard.set_warmup(*share),
                false => caller.note(own_name, format!(".set_warmup({share:.6}) ignored")),
            }
            Value::Nothing
        }
        ("set_rampup", [Value::Real(seconds)]) => {
            shard.set_rampup(seconds.max(0.0));
            Value::Nothing
        }
        ("associate", [Value::Nothing]) => {
            shard.associate(None);
            Value::Nothing
        }
        ("associate", [Value::Blob(blob)]) => {
            let param = param_of(directors, *blob, texts);
            shard.associate(Some(param.ok_or_else(|| failed(own_name, "shard .associate param invalid"))?));
            Value::Nothing
        }
        ("add_backend" | "remove_backend" | "clear", args) => {
            Value::Bool(shard.change(change(directors, name, args, caller, texts, own_name)?))
        }
        ("reconfigure", [Value::Int(replicas)]) => reconfigure(directors, object, own_name, *replicas, caller),
        ("key", [Value::Text(text)]) => Value::Int(hash::hash(texts.bytes(*text)).into()),
        ("backend", [arguments @ .., param, resolve]) => {
            let given = Given { set: arguments, param: *param, resolve: *resolve };
            chosen(directors, (object, shard), &given, caller, texts, own_name)?
        }
        // What it logs is not what we log.
        ("debug", [Value::Int(_)]) => Value::Nothing,
        _ => return Err(misfit(name)),
    })
}

fn change(
    directors: &Directors,
    name: &str,
    args: &[Value],
    caller: &mut Caller<'_>,
    texts: &Texts<'_>,
    own_name: &str,
) -> Result<Change, Failure> {
    let ident = |ident: &Value| match ident {
        Value::Text(ident) => Some(String::from_utf8_lossy(texts.bytes(*ident)).into_owned()),
        _ => None,
    };
    Ok(match (name, args) {
        ("clear", []) => Change::Clear,
        ("remove_backend", [removed, given]) => match (ident(given), removed) {
            (Some(ident), _) => Change::RemoveIdent(ident),
            (None, Value::Id(Some(removed))) => Change::RemoveBackend(*removed),
            (None, _) => return Err(failed(own_name, ".remove_backend(): either backend or ident are required")),
        },
        ("add_backend", [added, given, rampup, weight]) => {
            let Value::Id(Some(added)) = added else {
                return Err(failed(own_name, "None backend cannot be added"));
            };
            let name = || directors.name(*added).unwrap_or_default().to_owned();
            let rampup = match rampup {
                Value::Real(seconds) => Some(*seconds),
                _ => None,
            };
            let weight = match weight {
                Value::Real(weight) if *weight >= 1.0 => *weight,
                Value::Real(weight) => {
                    caller.note(own_name, format!(".add_backend(weight={weight:.6}) ignored"));
                    1.0
                }
                _ => 1.0,
            };
            let ident = ident(given).filter(|ident| !ident.is_empty()).unwrap_or_else(name);
            Change::Add { backend: *added, ident, rampup, weight }
        }
        _ => return Err(misfit(name)),
    })
}

fn reconfigure(directors: &Directors, object: usize, own_name: &str, replicas: i64, caller: &mut Caller<'_>) -> Value {
    if replicas <= 0 {
        caller.note(own_name, format!(".reconfigure() invalid replicas argument {replicas}"));
        return Value::Bool(false);
    }
    let (has_members, notes) = directors.reconfigure(object, u32::try_from(replicas).unwrap_or(u32::MAX));
    caller.notes.extend(shown(own_name, notes));
    Value::Bool(has_members)
}

/// The arguments of `.backend()`.
struct Given<'a> {
    set: &'a [Value],
    param: Value,
    resolve: Value,
}

/// `.backend()`: a member, or the director itself, which keeps the arguments for the fetch.
fn chosen(
    directors: &Directors,
    (object, shard): (usize, &Shard),
    given: &Given<'_>,
    caller: &mut Caller<'_>,
    texts: &Texts<'_>,
    own_name: &str,
) -> Result<Value, Failure> {
    let is_lazy = match given.resolve {
        Value::Word(word) => word == LAZY,
        _ => caller.is_init(),
    };
    let itself = Value::Id(Some(directors.number(object)));
    let has_more = given.set.iter().chain([&given.param]).any(|value| *value != Value::Nothing);
    if is_lazy && !has_more {
        return Ok(itself);
    }
    if is_lazy && !is_fetch(caller.step) {
        let why = ".backend(resolve=LAZY) with other parameters can only be used in backend/pipe context";
        return Err(failed(own_name, why));
    }
    if !is_lazy && caller.is_init() {
        return Err(failed(own_name, ".backend(resolve=NOW) cannot be used in vcl_init{}/vcl_fini{}"));
    }
    let param = match given.param {
        Value::Blob(blob) => {
            let param = param_of(directors, blob, texts);
            Some(param.ok_or_else(|| failed(own_name, ".backend(key_blob) param invalid"))?)
        }
        _ => None,
    };
    let asked = Asked { set: set_of(given.set, "shard.backend()", own_name, caller, texts)?, param };
    if is_lazy {
        if let Some(task) = &mut caller.task {
            task.ask(object, asked);
        }
        return Ok(itself);
    }
    Ok(Value::Id(directors.choose_shard(object, shard, asked, &caller.asker())))
}

/// The word of `resolve` that means later.
const LAZY: u32 = 1;

/// Whether a sub belongs to a fetch, or to a pipe, which is one.
fn is_fetch(step: Step) -> bool {
    Steps::BACKEND.or(Steps::of(Step::Pipe)).contains(step)
}

/// Calls a method of a set.
pub fn call_param(
    directors: &Directors,
    object: usize,
    set: &Mutex<Set>,
    name: &str,
    args: &[Value],
    caller: &mut Caller<'_>,
    texts: &mut Texts<'_>,
) -> Result<Value, Failure> {
    let own_name = directors.name(directors.number(object)).unwrap_or_default();
    let task = if is_fetch(caller.step) { caller.task.as_deref() } else { None };
    let question = directors.set(object, task).question();
    let text = |text: &str, texts: &mut Texts<'_>| Ok(Value::Text(Some(texts.keep(text.as_bytes())?)));
    match (name, args) {
        ("clear" | "set", args) => {
            let new = match name {
                "clear" => Set::default(),
                _ => set_of(args, "shard_param.set()", own_name, caller, texts)?,
            };
            match (&mut caller.task, caller.step) {
                (Some(task), step) if is_fetch(step) => task.put(object, new),
                (_, Step::Init) => *set.lock() = new,
                _ => {
                    let why = format!("shard_param.{name}() may only be used in vcl_init and in backend/pipe context");
                    return Err(failed(own_name, &why));
                }
            }
            Ok(Value::Nothing)
        }
        ("get_by", []) => text(question.by.name(), texts),
        ("get_key", []) => Ok(Value::Int(caller.asker().key(question.by).into())),
        ("get_alt", []) => Ok(Value::Int(i64::try_from(question.alt).unwrap_or(i64::MAX))),
        ("get_warmup", []) => Ok(Value::Real(question.warmup.unwrap_or(-1.0))),
        ("get_rampup", []) => Ok(Value::Bool(question.rampup)),
        ("get_healthy", []) => text(question.healthy.name(), texts),
        ("use", []) => Ok(Value::Blob(texts.keep(&[&PARAM[..], &(object as u64).to_be_bytes()].concat())?)),
        _ => Err(misfit(name)),
    }
}

/// How a blob begins that stands for a set; the number of its object comes behind.
const PARAM: [u8; 16] = *b"\0shard_param.use";

/// The object of the set that a blob stands for.
fn param_of(directors: &Directors, blob: Text, texts: &Texts<'_>) -> Option<usize> {
    let number = texts.bytes(Some(blob)).strip_prefix(&PARAM)?.try_into().ok()?;
    let object = usize::try_from(u64::from_be_bytes(number)).ok()?;
    matches!(directors.director(object)?, Director::ShardParam(_)).then_some(object)
}

/// The arguments that a set consists of.
fn set_of(
    args: &[Value],
    function: &str,
    own_name: &str,
    caller: &mut Caller<'_>,
    texts: &Texts<'_>,
) -> Result<Set, Failure> {
    let [by, key, key_blob, alt, warmup, rampup, healthy] = args else { return Err(misfit(function)) };
    let wrong = |what: String| failed(own_name, &format!("{function} {what}"));
    let (by, note) = by_of([*by, *key, *key_blob], texts).map_err(&wrong)?;
    if let Some(note) = note {
        caller.note(own_name, format!("{function} {note}"));
    }
    let alt = match alt {
        Value::Int(alt) => Some(u64::try_from(*alt).map_err(|_| wrong(format!("invalid alt argument {alt}")))?),
        _ => None,
    };
    let warmup = match warmup {
        Value::Real(share) if *share == -1.0 || (0.0..=1.0).contains(share) => Some(*share),
        Value::Real(share) => return Err(wrong(format!("invalid warmup argument {share:.6}"))),
        _ => None,
    };
    let rampup = match rampup {
        Value::Bool(rampup) => Some(*rampup),
        _ => None,
    };
    let healthy = match healthy {
        Value::Word(word) => Healthy::ALL.get(*word as usize).copied(),
        _ => None,
    };
    Ok(Set { by, alt, warmup, rampup, healthy })
}

/// `by` with `key` or `key_blob`, and what is to be noted; or what is wrong with them.
fn by_of(args: [Value; 3], texts: &Texts<'_>) -> Result<(Option<By>, Option<&'static str>), String> {
    let by = match args {
        [Value::Word(2), Value::Int(key), _] => match u32::try_from(key) {
            Ok(key) => By::Key(key),
            Err(_) => return Err(format!("invalid key argument {key} with by=KEY")),
        },
        [Value::Word(2), ..] => return Err("missing key argument with by=KEY".to_owned()),
        [Value::Word(3), _, Value::Blob(blob)] => {
            let blob = texts.bytes(Some(blob));
            let note = blob.is_empty().then_some("by=BLOB but no or empty key_blob - using key 0");
            return Ok((Some(By::Blob(hash::of_blob(blob))), note));
        }
        [Value::Word(3), ..] => return Err("missing key_blob argument with by=BLOB".to_owned()),
        [Value::Word(0), Value::Nothing, Value::Nothing] => By::Hash,
        [Value::Word(1), Value::Nothing, Value::Nothing] => By::Url,
        [_, Value::Nothing, Value::Nothing] => return Ok((None, None)),
        [by, ..] => {
            let by = if by == Value::Word(1) { "URL" } else { "HASH" };
            return Err(format!("key and key_blob arguments are invalid with by={by}"));
        }
    };
    Ok((Some(by), None))
}

fn failed(own_name: &str, why: &str) -> Failure {
    Failure::host(format!("vmod_directors: shard {own_name}: {why}"))
}

#[cfg(test)]
mod tests {
    use larder_vcl::program::Program;

    use super::*;

    #[test]
    fn a_key_fits_what_it_is_looked_up_by() {
        let (program, mut made) = (Program::default(), Vec::new());
        let mut texts = Texts::new(&program, &mut made, 100);
        let blob = Value::Blob(texts.keep(b"\x01\x02\x03\x04\x05").expect("there is room"));
        let empty = Value::Blob(texts.keep(b"").expect("there is room"));
        let [hash, url, key, by_blob] = [0, 1, 2, 3].map(Value::Word);
        let none = Value::Nothing;
        for (args, expected) in [
            ([none, none, none], Ok((None, None))),
            ([hash, none, none], Ok((Some(By::Hash), None))),
            ([url, none, none], Ok((Some(By::Url), None))),
            ([key, Value::Int(7), none], Ok((Some(By::Key(7)), None))),
            ([key, Value::Int(4_294_967_295), none], Ok((Some(By::Key(u32::MAX)), None))),
            ([key, Value::Int(4_294_967_296), none], Err("invalid key argument 4294967296 with by=KEY")),
            ([key, Value::Int(-1), none], Err("invalid key argument -1 with by=KEY")),
            ([key, none, none], Err("missing key argument with by=KEY")),
            ([by_blob, none, blob], Ok((Some(By::Blob(0x0102_0304)), None))),
            ([by_blob, none, empty], Ok((Some(By::Blob(0)), Some("by=BLOB but no or empty key_blob - using key 0")))),
            ([by_blob, Value::Int(7), none], Err("missing key_blob argument with by=BLOB")),
            ([none, Value::Int(7), none], Err("key and key_blob arguments are invalid with by=HASH")),
            ([url, none, blob], Err("key and key_blob arguments are invalid with by=URL")),
        ] {
            assert_eq!(by_of(args, &texts), expected.map_err(str::to_owned), "{args:?}");
        }
    }
}
