//! The VCL of the scenario `vcl`: that of a shop, and the same with more to decide.

use super::LoadError;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// What is added to the VCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extra {
    /// Nothing.
    Nothing,
    /// A director that chooses among [`BACKENDS`] backends for each request.
    Director,
    /// An ACL of [`ENTRIES`] entries, in which the client of each request is looked up.
    Acl,
}

/// How many backends the director has.
const BACKENDS: usize = 100;
/// How many entries the ACL has.
const ENTRIES: u32 = 10_000;

/// The text of the VCL, with Magento's marks for what a site fills in.
pub fn template(path: Option<&Path>) -> Result<String, LoadError> {
    match path {
        None => Ok(include_str!("shop.vcl").into()),
        Some(path) => {
            fs::read_to_string(path).map_err(|error| LoadError::Usage(format!("{}: {error}", path.display())))
        }
    }
}

/// The VCL before an origin, with what is added to it.
pub fn vcl(template: &str, port: u16, extra: Extra) -> String {
    let mut text = template.to_string();
    for (mark, filled) in [
        ("/* {{ host }} */", "127.0.0.1"),
        ("/* {{ port }} */", port.to_string().as_str()),
        ("/* {{ ips }} */", "\"127.0.0.2\";"),
        ("/* {{ ssl_offloaded_header }} */", "X-Forwarded-Proto"),
        ("/* {{ grace_period }} */", "300"),
        ("/* {{ design_exceptions_code }} */", ""),
    ] {
        text = text.replace(mark, filled);
    }
    // It runs before the subs of the same names, which return.
    let behind_version = text.find(';').map_or(0, |at| at + 1);
    text.insert_str(behind_version, &added(extra, port));
    text
}

fn added(extra: Extra, port: u16) -> String {
    let mut out = String::from("\n");
    match extra {
        Extra::Nothing => {}
        Extra::Director => {
            let (mut backends, mut adds) = (String::new(), String::new());
            for at in 0..BACKENDS {
                let _ = writeln!(backends, "backend b{at} {{ .host = \"127.0.0.1\"; .port = \"{port}\"; }}");
                let _ = writeln!(adds, "    many.add_backend(b{at});");
            }
            let _ = writeln!(
                out,
                "import directors;\n{backends}sub vcl_init {{\n    new many = directors.round_robin();\n{adds}}}\n\
                 sub vcl_recv {{\n    set req.backend_hint = many.backend();\n}}"
            );
        }
        Extra::Acl => {
            out.push_str("acl many {\n");
            for at in 0..ENTRIES {
                let [_, _, high, low] = at.to_be_bytes();
                let _ = writeln!(out, "    \"{}.{high}.{low}.0\"/24;", 10 + at % 90);
            }
            out.push_str("}\nsub vcl_recv {\n    if (client.ip ~ many) {\n        return (synth(403));\n    }\n}\n");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_marks_are_filled_in() {
        let template = template(None).expect("it is in the program");
        for (extra, has) in [
            (Extra::Nothing, "sub vcl_recv"),
            (Extra::Director, "add_backend(b99);"),
            (Extra::Acl, "\"19.39.15.0\"/24;"),
        ] {
            let vcl = vcl(&template, 8080, extra);
            assert!(vcl.starts_with("vcl 4.1;\n") && vcl.contains(has), "{extra:?}");
            assert!(vcl.contains(".port = \"8080\";") && !vcl.contains("{{"), "{extra:?}");
        }
    }
}
