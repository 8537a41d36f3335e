//! Whether a query is true of a group.

use super::number::{self, is_space};
use super::{Expression, Place, Test};
use crate::group::Group;

/// Whether it is true. It calls itself as deep as parentheses are nested.
pub fn is_true(expression: &Expression, group: &Group) -> bool {
    match expression {
        Expression::Any(all) => all.iter().any(|one| is_true(one, group)),
        Expression::All(all) => all.iter().all(|one| is_true(one, group)),
        Expression::Not(inside) => !is_true(inside, group),
        Expression::Vxid(order, number) => {
            group.members.iter().any(|member| order.holds(i128::from(member.vxid), i128::from(*number)))
        }
        Expression::Record(place, test) => {
            let at_level = |level: u32| place.level.is_none_or(|(order, asked)| order.holds(level, asked));
            let members = group.members.iter().filter(|member| at_level(member.level));
            let mut records = members.flat_map(|member| member.records()).map(|(record, _)| record);
            records.any(|record| {
                place.tags.has(record.tag) && part(record.text, place).is_some_and(|text| test.holds(text))
            })
        }
    }
}

/// The part of a record that is looked at.
fn part<'a>(text: &'a [u8], place: &Place) -> Option<&'a [u8]> {
    let mut text = text;
    if let Some(prefix) = &place.prefix {
        let (front, behind) = text.split_at_checked(prefix.len())?;
        text = behind.strip_prefix(b":").filter(|_| front.eq_ignore_ascii_case(prefix))?;
        text = without_spaces(text);
    }
    match place.field {
        Some(number) => field(text, number),
        None => Some(text),
    }
}

/// A field, counted from 1. One that begins with a quote ends with one.
fn field(text: &[u8], number: usize) -> Option<&[u8]> {
    let mut rest = text;
    for counted in 1.. {
        rest = without_spaces(rest);
        let (found, behind) = match rest.strip_prefix(b"\"") {
            Some(inside) => {
                let end = inside.iter().position(|byte| *byte == b'"')?;
                (&inside[..end], &inside[end + 1..])
            }
            None if rest.is_empty() => return None,
            None => rest.split_at(rest.iter().position(|byte| is_space(*byte)).unwrap_or(rest.len())),
        };
        if counted == number {
            return Some(found);
        }
        if behind.first().is_some_and(|byte| !is_space(*byte)) {
            return None;
        }
        rest = behind;
    }
    None
}

fn without_spaces(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| is_space(**byte)).count()..]
}

impl Test {
    fn holds(&self, text: &[u8]) -> bool {
        match self {
            Self::There => true,
            Self::Whole(order, number) => whole(text).is_some_and(|own| order.holds(own, *number)),
            Self::Fraction(order, number) => number::fraction(text).is_some_and(|own| order.holds(own, *number)),
            Self::Text { is, text: other, caseless } => {
                let same = if *caseless { text.eq_ignore_ascii_case(other) } else { text == other };
                same == *is
            }
            // Where nobody knows, neither is true.
            Self::Pattern(is, pattern) => pattern.is_match(text) == Some(*is),
        }
    }
}

/// The whole number that a text is; of a fraction, what is in front of its point.
fn whole(text: &[u8]) -> Option<i64> {
    let read = number::whole(text);
    match read {
        Some((number, length)) if length == text.len() => Some(number),
        _ => {
            let behind = read.map_or(without_spaces(text), |(_, length)| &text[length..]);
            let goes_on = behind.first().is_some_and(|byte| matches!(byte, b'.' | b'e'));
            number::fraction(text).filter(|_| goes_on).map(|number| number as i64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{Grouping, Groups, Limits};
    use crate::pattern::plain;
    use crate::query::Query;
    use crate::{Kind, Tag, Writer};
    use std::time::Duration;

    type Lines<'a> = &'a [(Tag, &'a [u8])];

    fn group() -> Group {
        let mut groups = Groups::new(Grouping::Request, Limits::default());
        let lines: [(Kind, u64, Lines<'_>); 2] = [
            (
                Kind::BeReq,
                3,
                &[
                    (Tag::Begin, b"bereq 2 fetch"),
                    (Tag::BereqUrl, b"/page"),
                    (Tag::BerespStatus, b"503"),
                    (Tag::Timestamp, b"Beresp: 1.500000 0.900000 0.100000"),
                ],
            ),
            (
                Kind::Request,
                2,
                &[
                    (Tag::Begin, b"req 1 rxreq"),
                    (Tag::ReqUrl, b"/Page?x=1"),
                    (Tag::ReqHeader, b"Cookie:  a \"b c\" d"),
                    (Tag::ReqHeader, b"Odd: \"a\"b"),
                    (Tag::ReqHeader, b"Open: \"a"),
                    (Tag::ReqHeader, b"Empty:"),
                    (Tag::ReqHeader, b"Bytes: \xff\0x"),
                    (Tag::RespStatus, b"200"),
                    (Tag::Length, b"010"),
                    (Tag::Link, b"bereq 3 fetch"),
                    (Tag::ReqAcct, b"152 0 152 213 6 219"),
                ],
            ),
        ];
        for (kind, vxid, records) in lines {
            let mut writer = Writer::new(kind, vxid);
            for (tag, text) in records {
                writer.record(*tag, 1000, |out| out.extend_from_slice(text));
            }
            groups.add(writer.finish(), Duration::ZERO);
        }
        groups.next_ready().unwrap()
    }

    #[test]
    fn a_query_is_true_if_a_record_is_like_that() {
        let group = group();
        for (query, expected) in [
            ("ReqURL", true),
            ("Hit", false),
            ("not Hit", true),
            ("ReqURL eq '/Page?x=1'", true),
            ("ReqURL eq '/page?x=1'", false),
            ("ReqURL ne '/page?x=1'", true),
            ("ReqURL ne '/Page?x=1'", false),
            ("ReqURL eq '/Page'", false),
            ("*URL eq '/page'", true),
            ("ReqHeader:cookie", true),
            ("ReqHeader:cooki", false),
            ("ReqHeader:cookie2", false),
            ("ReqHeader:COOKIE[1] eq a", true),
            ("ReqHeader:cookie[2] eq 'b c'", true),
            ("ReqHeader:cookie[3] eq d", true),
            ("ReqHeader:cookie[4]", false),
            ("ReqHeader:cookie[0x1]", true),
            ("ReqHeader:odd[1] eq a", true),
            ("ReqHeader:odd[2]", false),
            ("ReqHeader:open[1]", false),
            ("ReqHeader:empty", true),
            ("ReqHeader:empty eq ''", true),
            ("ReqHeader:empty[1]", false),
            ("ReqHeader:empty == 0", false),
            ("ReqHeader:empty ~ ''", true),
            ("RespStatus == 200", true),
            ("RespStatus != 200", false),
            ("RespStatus > 199 and RespStatus < 201", true),
            ("RespStatus >= 200 and RespStatus <= 200", true),
            ("RespStatus == 200.0", true),
            ("RespStatus ~ 20", true),
            ("RespStatus !~ 20", false),
            ("ReqURL == 0", false),
            ("Length == 8", true),
            ("ReqAcct == 152", false),
            ("ReqAcct[5] == 6", true),
            ("Timestamp:Beresp[2] > 0.8", true),
            ("Timestamp:Beresp[2] > 0.9", false),
            ("Timestamp:Beresp[1] == 1", true),
            ("{1}*Status == 503", false),
            ("{2}*Status == 503", true),
            ("{2-}*Status == 503", true),
            ("{3+}*", false),
            ("{2+}ReqURL", false),
            ("vxid == 3", true),
            ("vxid > 3", false),
            ("vxid != 3", true),
            ("vxid == -1", false),
            ("Hit or BereqURL", true),
            ("Hit and BereqURL", false),
            ("Hit\nBereqURL", true),
            ("ReqURL ~ endless", false),
            ("ReqURL !~ endless", false),
        ] {
            let query = Query::parse(query.as_bytes(), false, &plain::compile).expect(query);
            assert_eq!(query.is_true_of(&group), expected, "{query:?}");
        }
        let query = Query::parse(b"ReqHeader:bytes eq '\xff\0x'", false, &plain::compile).unwrap();
        assert!(query.is_true_of(&group));
        for caseless in ["ReqURL eq '/PAGE?X=1'", "ReqURL ~ '^/PAGE'"] {
            let query = |is_caseless| Query::parse(caseless.as_bytes(), is_caseless, &plain::compile).unwrap();
            assert_eq!((query(false).is_true_of(&group), query(true).is_true_of(&group)), (false, true), "{caseless}");
        }
    }
}
