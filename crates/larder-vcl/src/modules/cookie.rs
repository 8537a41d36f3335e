//! The function of the module `cookie` that needs nothing but its arguments.

use crate::functions::dates;
use crate::run::{Failure, Texts, Value};

use super::{Pure, kept, misfit};

/// The functions of `cookie` that need nothing but their arguments.
pub const FUNCTIONS: [(&str, Pure); 1] = [("format_date", format_date)];

fn format_date(args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure> {
    match args {
        [Value::Real(time), Value::Real(later)] => {
            kept(dates::http(time + later).ok_or(Failure::NoDate)?.as_bytes(), texts)
        }
        _ => misfit("cookie.format_date"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::shown;
    use super::*;

    #[test]
    fn a_date_is_written_as_http_has_it() {
        for (time, later, expected) in [
            (0.0, 0.0, "\"Thu, 01 Jan 1970 00:00:00 GMT\""),
            (0.0, 86_400.9, "\"Fri, 02 Jan 1970 00:00:00 GMT\""),
            (1e12, 0.0, "a TIME that has no date"),
        ] {
            let args = [Ok(Value::Real(time)), Ok(Value::Real(later))];
            assert_eq!(shown("cookie.format_date", &args), expected);
        }
    }
}
