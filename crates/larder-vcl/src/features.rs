//! The flags of the parameter `feature`.

/// What of them means something to a VCL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// A page is read for ESI even if it does not begin with `<`.
    pub esi_disable_xml_check: bool,
    /// `https://` in an include counts as `http://`.
    pub esi_ignore_https: bool,
    /// ESI is also looked for inside of tags.
    pub esi_ignore_other_elements: bool,
    /// An include that fails ends its page, unless it has `onerror="continue"`.
    pub esi_include_onerror: bool,
    /// A byte order mark before a page with ESI is left out.
    pub esi_remove_bom: bool,
}

impl Features {
    /// Changes what a list such as `+esi_remove_bom,-trace` names; `none`, `default` and `all` say the same of each. An
    /// error names what is no such list, and nothing has changed.
    pub fn set(&mut self, list: &str) -> Result<(), String> {
        let mut changed = *self;
        for word in list.split(',').map(str::trim) {
            match (word, word.split_at_checked(1)) {
                ("none" | "default", _) => changed = Self::default(),
                ("all", _) => NAMES.iter().for_each(|name| changed.turn(name, true)),
                (_, Some((sign @ ("+" | "-"), name))) if NAMES.contains(&name) => changed.turn(name, sign == "+"),
                (_, Some(("+" | "-", name))) => return Err(format!("\"{name}\" is none of {}", NAMES.join(", "))),
                _ => return Err(format!("write +NAME or -NAME in place of \"{word}\"")),
            }
        }
        *self = changed;
        Ok(())
    }

    fn turn(&mut self, name: &str, is_on: bool) {
        match name {
            "esi_disable_xml_check" => self.esi_disable_xml_check = is_on,
            "esi_ignore_https" => self.esi_ignore_https = is_on,
            "esi_ignore_other_elements" => self.esi_ignore_other_elements = is_on,
            "esi_include_onerror" => self.esi_include_onerror = is_on,
            "esi_remove_bom" => self.esi_remove_bom = is_on,
            _ => {}
        }
    }
}

/// One list that says what two say, the later one last.
pub fn joined(before: &str, after: &str) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in before.split(',').chain(after.split(',')).map(str::trim) {
        let name = word.trim_start_matches(['+', '-']);
        // Without a sign it is about all of them.
        let is_about_all = name == word;
        words.retain(|said| !is_about_all && said.trim_start_matches(['+', '-']) != name);
        words.push(word);
    }
    words.join(",")
}

/// What a list leads to, as varnishd shows it: `none`, and each flag that is on.
pub fn shown(list: &str) -> Result<String, String> {
    let words = || list.split(',').map(str::trim);
    Features::default().set(list)?;
    let is_on = |name: &&&str| {
        words().fold(DEFAULTS.contains(*name), |is_on, word| match word {
            "none" => false,
            "all" => true,
            "default" => DEFAULTS.contains(*name),
            _ if word.trim_start_matches(['+', '-']) == **name => word.starts_with('+'),
            _ => is_on,
        })
    };
    Ok(NAMES.iter().filter(is_on).fold("none".to_owned(), |text, name| format!("{text},+{name}")))
}

/// The flags that are on in Varnish unless they are turned off.
const DEFAULTS: [&str; 2] = ["validate_headers", "vcl_req_reset"];

/// All flags of Varnish.
const NAMES: [&str; 15] = [
    "http2",
    "short_panic",
    "no_coredump",
    "https_scheme",
    "http_date_postel",
    "esi_ignore_https",
    "esi_disable_xml_check",
    "esi_ignore_other_elements",
    "esi_remove_bom",
    "esi_include_onerror",
    "wait_silo",
    "validate_headers",
    "busy_stats_rate",
    "trace",
    "vcl_req_reset",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_shown_as_what_it_leads_to() {
        for (list, expected) in [
            ("default", "none,+validate_headers,+vcl_req_reset"),
            ("none", "none"),
            ("+trace,+http2", "none,+http2,+validate_headers,+trace,+vcl_req_reset"),
            ("-vcl_req_reset,+http2,-http2", "none,+validate_headers"),
            ("none,+http2", "none,+http2"),
        ] {
            assert_eq!(shown(list).as_deref(), Ok(expected), "{list}");
        }
        assert!(shown("+nothing").is_err());
    }

    #[test]
    fn a_list_changes_what_it_names() {
        let bom = Features { esi_remove_bom: true, ..Features::default() };
        for (list, expected) in [
            ("+esi_remove_bom", Ok(bom)),
            ("+trace, +esi_remove_bom", Ok(bom)),
            ("all,none,+esi_remove_bom", Ok(bom)),
            ("all,-esi_remove_bom,default", Ok(Features::default())),
            ("+esi_remove_bom,-esi_remove_bom", Ok(Features::default())),
            ("esi_remove_bom", Err("write +NAME or -NAME in place of \"esi_remove_bom\"")),
            ("", Err("write +NAME or -NAME in place of \"\"")),
        ] {
            let mut features = Features::default();
            let done = features.set(list).map(|()| features);
            assert_eq!(done, expected.map_err(str::to_owned), "{list}");
        }
        let mut features = bom;
        assert!(features.set("-esi_remove_bom,+x").is_err_and(|why| why.starts_with("\"x\" is none of http2, ")));
        assert_eq!(features, bom);
    }

    #[test]
    fn of_two_lists_the_later_counts() {
        for (before, after, expected) in [
            ("+a", "+b", "+a,+b"),
            ("+a,+b", "-a", "+b,-a"),
            ("+a,-b", "none", "none"),
            ("none", "+a", "none,+a"),
            ("all,-a", "+a", "all,+a"),
        ] {
            assert_eq!(joined(before, after), expected, "{before} {after}");
        }
    }
}
