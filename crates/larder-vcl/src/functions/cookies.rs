//! The cookies of a request as the module `cookie` has them.

/// Names and values, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cookies(Vec<(Vec<u8>, Vec<u8>)>);

/// The cookies need more room than there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cookies of one request take more than {bytes_max} bytes")]
pub struct NoRoom {
    bytes_max: usize,
}

/// What a cookie takes beside its name and its value. It bounds their number, and with it the work for each.
const COOKIE_BYTES: usize = 48;

impl Cookies {
    /// `cookie.parse()`: forgets what was there, unless `field` is empty. A name without a value is left out, as is what
    /// stands behind the last `=`-less piece. All cookies together take `bytes_max` at most.
    pub fn parse(&mut self, field: &[u8], bytes_max: usize) -> Result<(), NoRoom> {
        if field.is_empty() {
            return Ok(());
        }
        self.clean();
        let mut rest = field;
        loop {
            rest = rest.trim_ascii_start();
            let Some(equals) = rest.iter().position(|byte| *byte == b'=') else { return Ok(()) };
            let (name, behind) = (&rest[..equals], &rest[equals + 1..]);
            let end = behind.iter().position(|byte| *byte == b';');
            self.set(name, &behind[..end.unwrap_or(behind.len())], bytes_max)?;
            match end {
                Some(end) => rest = &behind[end + 1..],
                None => return Ok(()),
            }
        }
    }

    /// `cookie.set()`: in place of one of the same name, or at the end. Nothing is set without a name or a value.
    pub fn set(&mut self, name: &[u8], value: &[u8], bytes_max: usize) -> Result<(), NoRoom> {
        if name.is_empty() || value.is_empty() {
            return Ok(());
        }
        let bytes: usize = self.0.iter().map(|(name, value)| name.len() + value.len() + COOKIE_BYTES).sum();
        if bytes + name.len() + value.len() + COOKIE_BYTES > bytes_max {
            return Err(NoRoom { bytes_max });
        }
        match self.0.iter_mut().find(|(there, _)| there == name) {
            Some((_, there)) => *there = value.to_vec(),
            None => self.0.push((name.to_vec(), value.to_vec())),
        }
        Ok(())
    }

    /// `cookie.get()`
    pub fn get(&self, name: &[u8]) -> Option<&[u8]> {
        self.find(|there| there == name)
    }

    /// `cookie.get_re()`: the value of the first cookie whose name `matches`.
    pub fn find(&self, mut matches: impl FnMut(&[u8]) -> bool) -> Option<&[u8]> {
        self.0.iter().find(|(name, _)| matches(name)).map(|(_, value)| &value[..])
    }

    /// `cookie.delete()`
    pub fn delete(&mut self, name: &[u8]) {
        self.0.retain(|(there, _)| there != name);
    }

    /// `cookie.clean()`
    pub fn clean(&mut self) {
        self.0.clear();
    }

    /// `cookie.keep()` and `cookie.filter()`: removes all that are not on the list, or all that are. Names on the list
    /// are separated by commas and blanks.
    pub fn select(&mut self, list: &[u8], keeps_listed: bool) {
        let listed: Vec<&[u8]> = list.split(|byte| *byte == b',').map(<[u8]>::trim_ascii_start).collect();
        self.retain(|name| listed.contains(&name) == keeps_listed);
    }

    /// `cookie.keep_re()` and `cookie.filter_re()`: keeps those for whose name `stays` is true.
    pub fn retain(&mut self, mut stays: impl FnMut(&[u8]) -> bool) {
        self.0.retain(|(name, _)| stays(name));
    }

    /// `cookie.get_string()`: the field `Cookie`.
    pub fn field(&self) -> Vec<u8> {
        let mut field = Vec::new();
        for (name, value) in &self.0 {
            if !field.is_empty() {
                field.extend_from_slice(b"; ");
            }
            field.extend_from_slice(name);
            field.push(b'=');
            field.extend_from_slice(value);
        }
        field
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(field: &str) -> Cookies {
        let mut cookies = Cookies::default();
        cookies.parse(field.as_bytes(), 10_000).expect("there is room");
        cookies
    }

    fn shown(cookies: &Cookies) -> String {
        String::from_utf8_lossy(&cookies.field()).into_owned()
    }

    #[test]
    fn a_field_is_taken_apart() {
        for (field, expected) in [
            ("", ""),
            ("a=1", "a=1"),
            ("a=1; b=2;c=3", "a=1; b=2; c=3"),
            ("a=1; a=2", "a=2"),
            ("a=1; b=; c=3", "a=1; c=3"),
            ("=1; b=2", "b=2"),
            ("a=x=y; b=2", "a=x=y; b=2"),
            ("a=1; flag", "a=1"),
            ("flag; a=1", "flag; a=1"),
            (" a = 1 ", "a = 1 "),
        ] {
            assert_eq!(shown(&parsed(field)), expected, "{field:?}");
        }
        let mut cookies = parsed("a=1");
        cookies.parse(b"", 0).expect("nothing needs no room");
        assert_eq!(shown(&cookies), "a=1", "there was nothing to parse");
        cookies.parse(b"b=2", 100).expect("there is room");
        assert_eq!(shown(&cookies), "b=2");
    }

    #[test]
    fn cookies_are_kept_and_removed_by_lists_and_patterns() {
        let all = parsed("aa=1; ab=2; b=3");
        for (list, kept, filtered) in [
            ("aa,b", "aa=1; b=3", "ab=2"),
            (" aa, b", "aa=1; b=3", "ab=2"),
            (",,b", "b=3", "aa=1; ab=2"),
            ("b ", "", "aa=1; ab=2; b=3"),
            ("", "", "aa=1; ab=2; b=3"),
        ] {
            let (mut keep, mut filter) = (all.clone(), all.clone());
            keep.select(list.as_bytes(), true);
            filter.select(list.as_bytes(), false);
            assert_eq!((shown(&keep).as_str(), shown(&filter).as_str()), (kept, filtered), "{list:?}");
        }
        let mut some = all.clone();
        some.retain(|name| name.starts_with(b"a"));
        assert_eq!(shown(&some), "aa=1; ab=2");
        assert_eq!(all.find(|name| name.ends_with(b"b")), Some(&b"2"[..]));
        assert_eq!((all.get(b"b"), all.get(b"")), (Some(&b"3"[..]), None));
    }

    #[test]
    fn cookies_are_set_in_place() {
        let mut cookies = parsed("a=1; b=2");
        for (name, value) in [("a", "3"), ("c", "4"), ("b", ""), ("", "5")] {
            cookies.set(name.as_bytes(), value.as_bytes(), 1000).expect("there is room");
        }
        cookies.delete(b"b");
        cookies.delete(b"");
        assert_eq!(shown(&cookies), "a=3; c=4");
    }

    #[test]
    fn cookies_that_find_no_room_are_an_error() {
        for (field, bytes_max, expected) in
            [("a=1", 50, Ok(())), ("a=1", 49, Err(())), ("a=1; b=2", 99, Err(())), ("a=1; b=2", 100, Ok(()))]
        {
            let parsed = Cookies::default().parse(field.as_bytes(), bytes_max);
            assert_eq!(parsed.map_err(drop), expected, "{field}, {bytes_max} bytes");
        }
    }
}
