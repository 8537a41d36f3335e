//! Numbers that make one, and comparisons. `None` for values that do not go together, which the checks rule out.

use crate::policy::Arithmetic;
use crate::program::Relation;
use crate::types::Type;

use super::{Failure, Value};

/// INT by INT.
pub fn int(by: Arithmetic, left: Value, right: Value) -> Option<Result<Value, Failure>> {
    let (Value::Int(left), Value::Int(right)) = (left, right) else { return None };
    let number = match by {
        Arithmetic::Add => left.checked_add(right),
        Arithmetic::Subtract => left.checked_sub(right),
        Arithmetic::Multiply => left.checked_mul(right),
        Arithmetic::Divide | Arithmetic::Remainder if right == 0 => return Some(Err(Failure::DivisionByZero)),
        Arithmetic::Divide => left.checked_div(right),
        Arithmetic::Remainder => left.checked_rem(right),
    };
    Some(number.map(Value::Int).ok_or(Failure::Overflow(Type::Int)))
}

/// REAL, DURATION or TIME by another, or by an INT.
pub fn real(by: Arithmetic, left: Value, right: Value) -> Option<Result<Value, Failure>> {
    let (left, right) = (as_real(left)?, as_real(right)?);
    let number = match by {
        Arithmetic::Add => left + right,
        Arithmetic::Subtract => left - right,
        Arithmetic::Multiply => left * right,
        Arithmetic::Divide if right == 0.0 => return Some(Err(Failure::DivisionByZero)),
        Arithmetic::Divide => left / right,
        Arithmetic::Remainder => return None,
    };
    Some(if number.is_finite() { Ok(Value::Real(number)) } else { Err(Failure::Overflow(Type::Real)) })
}

/// BYTES by BYTES, or by a factor.
pub fn bytes(by: Arithmetic, left: Value, right: Value) -> Option<Result<Value, Failure>> {
    let Value::Bytes(left) = left else { return None };
    let number = match (by, right) {
        (Arithmetic::Add, Value::Bytes(right)) => left.checked_add(right),
        (Arithmetic::Subtract, Value::Bytes(right)) => left.checked_sub(right),
        (Arithmetic::Multiply, right) => whole(left as f64 * as_real(right)?),
        (Arithmetic::Divide, right) => match as_real(right)? {
            0.0 => return Some(Err(Failure::DivisionByZero)),
            right => whole(left as f64 / right),
        },
        (Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Remainder, _) => return None,
    };
    Some(number.map(Value::Bytes).ok_or(Failure::Overflow(Type::Bytes)))
}

/// Compares values of one type, but for texts.
pub fn compare(relation: Relation, left: Value, right: Value) -> Option<bool> {
    Some(match (left, right) {
        (Value::Int(left), Value::Int(right)) => holds(relation, &left, &right),
        (Value::Bytes(left), Value::Bytes(right)) => holds(relation, &left, &right),
        (Value::Real(left), Value::Real(right)) => holds(relation, &left, &right),
        (Value::Bool(left), Value::Bool(right)) => holds(relation, &left, &right),
        (Value::Id(left), Value::Id(right)) => holds(relation, &left, &right),
        // A port is no part of who somebody is.
        (Value::Ip(left), Value::Ip(right)) => holds(relation, &left.ip(), &right.ip()),
        _ => return None,
    })
}

/// Whether a relation holds between two values.
pub fn holds<T: PartialOrd + ?Sized>(relation: Relation, left: &T, right: &T) -> bool {
    match relation {
        Relation::Equal => left == right,
        Relation::NotEqual => left != right,
        Relation::Less => left < right,
        Relation::LessOrEqual => left <= right,
        Relation::Greater => left > right,
        Relation::GreaterOrEqual => left >= right,
    }
}

fn as_real(value: Value) -> Option<f64> {
    match value {
        Value::Real(number) => Some(number),
        Value::Int(number) => Some(number as f64),
        _ => None,
    }
}

/// A number of bytes, with its parts cut off.
fn whole(number: f64) -> Option<i64> {
    (number.abs() < i64::MAX as f64).then_some(number as i64)
}
