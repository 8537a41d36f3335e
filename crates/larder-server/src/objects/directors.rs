//! The objects of the module `directors`, but for shards.

use larder_vcl::run::{Failure, Texts, Value};

use crate::directors::{Director, Directors, Fallback, RoundRobin, Set, Shard, Weighted, hash, place_of};

use super::{Caller, backend, misfit, not_made, shard};

/// Makes a director.
pub fn made(ty: &str, args: &[Value]) -> Result<Director, Failure> {
    Ok(match (ty, args) {
        ("round_robin", []) => Director::RoundRobin(RoundRobin::default()),
        ("fallback", [Value::Bool(is_sticky)]) => Director::Fallback(Fallback::new(*is_sticky)),
        ("random", []) => Director::Random(Weighted::default()),
        ("hash", []) => Director::Hash(Weighted::default()),
        ("shard", []) => Director::Shard(Shard::default()),
        ("shard_param", []) => Director::ShardParam(Set::default().into()),
        _ => return Err(misfit(ty)),
    })
}

/// Calls a method of a director.
pub fn call(
    directors: &Directors,
    object: usize,
    name: &str,
    args: &[Value],
    caller: &mut Caller<'_>,
    texts: &mut Texts<'_>,
) -> Result<Value, Failure> {
    match directors.director(object).ok_or_else(not_made)? {
        Director::Shard(shard) => shard::call(directors, object, shard, name, args, caller, texts),
        Director::ShardParam(set) => shard::call_param(directors, object, set, name, args, caller, texts),
        Director::Hash(director) if name == "backend" => {
            let [Value::Text(key)] = args else { return Err(misfit(name)) };
            Ok(Value::Id(director.choose(place_of(hash::hash(texts.bytes(*key))), directors)))
        }
        Director::RoundRobin(_) | Director::Fallback(_) | Director::Random(_) | Director::Hash(_) => {
            call_plain(directors, object, name, args, caller)
        }
    }
}

fn call_plain(
    directors: &Directors,
    object: usize,
    name: &str,
    args: &[Value],
    caller: &mut Caller<'_>,
) -> Result<Value, Failure> {
    let own_name = directors.name(directors.number(object)).unwrap_or_default();
    match (name, args) {
        ("add_backend", [added, rest @ ..]) => {
            let added = backend(*added, own_name, "added")?;
            let weight = match rest {
                [Value::Real(weight)] => *weight,
                _ => 1.0,
            };
            let is_added = directors.add(object, added, weight);
            if !is_added.map_err(|why| Failure::host(format!("{own_name}.add_backend(): {why}")))? {
                let added = directors.name(added).unwrap_or_default();
                caller.notes.push(format!("{own_name}: {added} has this director among its own, and is left out"));
            }
            Ok(Value::Nothing)
        }
        ("remove_backend", [removed]) => {
            directors.remove(object, backend(*removed, own_name, "removed")?);
            Ok(Value::Nothing)
        }
        ("backend", []) => Ok(Value::Id(Some(directors.number(object)))),
        _ => Err(misfit(name)),
    }
}
