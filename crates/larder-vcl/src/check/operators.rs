//! Which types operators take, and what they make of them.

use crate::ast::{Arithmetic, Compare};
use crate::types::Type;

/// What two types make of each other when they are added or subtracted.
const SUMS: [(Type, Arithmetic, Type, Type); 15] = [
    (Type::Bytes, Arithmetic::Add, Type::Bytes, Type::Bytes),
    (Type::Bytes, Arithmetic::Subtract, Type::Bytes, Type::Bytes),
    (Type::Duration, Arithmetic::Add, Type::Duration, Type::Duration),
    (Type::Duration, Arithmetic::Subtract, Type::Duration, Type::Duration),
    (Type::Int, Arithmetic::Add, Type::Int, Type::Int),
    (Type::Int, Arithmetic::Subtract, Type::Int, Type::Int),
    (Type::Int, Arithmetic::Add, Type::Real, Type::Real),
    (Type::Int, Arithmetic::Subtract, Type::Real, Type::Real),
    (Type::Real, Arithmetic::Add, Type::Int, Type::Real),
    (Type::Real, Arithmetic::Subtract, Type::Int, Type::Real),
    (Type::Real, Arithmetic::Add, Type::Real, Type::Real),
    (Type::Real, Arithmetic::Subtract, Type::Real, Type::Real),
    (Type::Time, Arithmetic::Subtract, Type::Time, Type::Duration),
    (Type::Time, Arithmetic::Add, Type::Duration, Type::Time),
    (Type::Time, Arithmetic::Subtract, Type::Duration, Type::Time),
];

/// What two types make of each other when they are added or subtracted, if they can be.
pub fn sum_of(left: Type, operator: Arithmetic, right: Type) -> Option<Type> {
    SUMS.iter().find(|(a, own, b, _)| (*a, *own, *b) == (left, operator, right)).map(|(.., ty)| *ty)
}

/// Whether anything can be added to this type, or subtracted from it, but for text.
pub fn begins_sum(left: Type, operator: Arithmetic) -> bool {
    SUMS.iter().any(|(a, own, ..)| (*a, *own) == (left, operator))
}

/// Whether values of this type can be on the left of a comparison.
pub fn is_comparable(ty: Type, operator: Compare) -> bool {
    let has_order = matches!(ty, Type::Int | Type::Duration | Type::Bytes | Type::Real | Type::Time | Type::String);
    match operator {
        Compare::Equal | Compare::NotEqual => {
            has_order
                || matches!(
                    ty,
                    Type::Backend | Type::Acl | Type::Probe | Type::Stevedore | Type::Sub | Type::Bool | Type::Ip
                )
        }
        Compare::Less | Compare::LessOrEqual | Compare::Greater | Compare::GreaterOrEqual => has_order,
        Compare::Matches | Compare::MatchesNot => matches!(ty, Type::String | Type::Ip),
    }
}

/// Whether a number may have a sign where this is wanted.
pub fn may_be_negative(hint: Type) -> bool {
    matches!(hint, Type::Int | Type::Real | Type::Duration | Type::String)
}
