//! The forms in which counters are printed once, as varnishstat 7.1 prints them.

use std::fmt::Write;

use serde_json::Value;

use super::point::{Kind, Point};

/// `-1`: a line for each: name, value, how much that is a second, description. The second column begins further to the
/// right behind each name that is longer than all before.
///
/// `uptime` is how long the server has been serving, in seconds; 0 if it does not serve.
pub fn once<'a>(points: impl Iterator<Item = &'a Point>, uptime: u64) -> String {
    let (mut text, mut width) = (String::new(), NAME_WIDTH);
    for Point { name, kind, value, about, .. } in points {
        width = width.max(name.len() + 1);
        let rate = match kind {
            Kind::Counter => format!("{:12.2}", per_second(*value, uptime)),
            Kind::Gauge | Kind::Bits => format!("{:>12}", ".  "),
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:width$}{value:12} {rate} {about}");
    }
    text
}

/// How much a counter has grown each second.
pub fn per_second(value: u64, uptime: u64) -> f64 {
    if uptime == 0 { 0.0 } else { value as f64 / uptime as f64 }
}

/// `-j`: JSON. `stamp` is the local time.
pub fn json<'a>(points: impl Iterator<Item = &'a Point>, stamp: &str) -> String {
    let one = |Point { name, kind, format, value, about }: &Point| {
        let quoted = |text: &str| Value::from(text).to_string();
        format!(
            "    {}: {{\n      \"description\": {},\n      \"flag\": \"{}\",\n      \"format\": \"{}\",\n      \
             \"value\": {value}\n    }}",
            quoted(name),
            quoted(about),
            kind.letter(),
            format.letter(),
        )
    };
    let all: Vec<String> = points.map(one).collect();
    let all = all.join(",\n");
    format!("{{\n  \"version\": 1,\n  \"timestamp\": \"{stamp}\",\n  \"counters\": {{\n{all}\n  }}\n}}\n")
}

/// `-x`: XML.
pub fn xml<'a>(points: impl Iterator<Item = &'a Point>, stamp: &str) -> String {
    let mut text = format!("<?xml version=\"1.0\"?>\n<varnishstat timestamp=\"{stamp}\">\n");
    for Point { name, kind, format, value, about } in points {
        let (name, about) = (escaped(name), escaped(about));
        let (kind, format) = (kind.letter(), format.letter());
        let _ = write!(
            text,
            "\t<stat>\n\t\t<name>{name}</name>\n\t\t<value>{value}</value>\n\t\t<flag>{kind}</flag>\n\
             \t\t<format>{format}</format>\n\t\t<description>{about}</description>\n\t</stat>\n"
        );
    }
    text + "</varnishstat>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// `-l`: the names with what they count.
pub fn list<'a>(points: impl Iterator<Item = &'a Point>) -> String {
    let mut text = "Varnishstat -f option fields:\n".to_owned();
    let line = |name: &str, about: &str| format!("{name:30} {about}\n");
    text.push_str(&line("Field name", "Description"));
    text.push_str(&line("----------", "-----------"));
    points.for_each(|point| text.push_str(&line(&point.name, &point.about)));
    text
}

/// How wide the first column is, if no name is longer.
const NAME_WIDTH: usize = 18;

#[cfg(test)]
mod tests {
    use super::super::point::Format;
    use super::*;

    fn points() -> [Point; 4] {
        [
            ("MGT.uptime", Kind::Counter, Format::Seconds, 90, "How long it runs"),
            ("MAIN.sess_fail_econnaborted", Kind::Counter, Format::Integer, 45, "Given up"),
            ("MAIN.pools", Kind::Gauge, Format::Integer, 2, "Pools of <threads> & \"more\""),
            ("VBE.boot.b2.happy", Kind::Bits, Format::Bits, 6, "Good probes"),
        ]
        .map(|(name, kind, format, value, about)| {
            let (name, about) = (name.to_owned(), about.to_owned());
            Point { name, kind, format, value, about }
        })
    }

    #[test]
    fn columns_are_where_varnishstat_has_them() {
        assert_eq!(
            once(points().iter(), 60),
            "MGT.uptime                  90         1.50 How long it runs\n\
             MAIN.sess_fail_econnaborted           45         0.75 Given up\n\
             MAIN.pools                             2          .   Pools of <threads> & \"more\"\n\
             VBE.boot.b2.happy                      6          .   Good probes\n"
        );
        assert!(once(points().iter(), 0).starts_with("MGT.uptime                  90         0.00 How"));
    }

    #[test]
    fn json_is_that_of_varnish_7() {
        let text = json(points()[..1].iter(), "2026-11-26T00:01:22");
        assert_eq!(
            text,
            "{\n  \"version\": 1,\n  \"timestamp\": \"2026-11-26T00:01:22\",\n  \"counters\": {\n    \"MGT.uptime\": {\n      \
             \"description\": \"How long it runs\",\n      \"flag\": \"c\",\n      \"format\": \"d\",\n      \"value\": 90\n    \
             }\n  }\n}\n"
        );
        for count in 0..=4 {
            let all: Value = serde_json::from_str(&json(points()[..count].iter(), "now")).unwrap();
            assert_eq!(all["counters"].as_object().map(|counters| counters.len()), Some(count));
        }
    }

    #[test]
    fn xml_and_the_list_have_every_counter() {
        let text = xml(points()[2..3].iter(), "now");
        assert_eq!(
            text,
            "<?xml version=\"1.0\"?>\n<varnishstat timestamp=\"now\">\n\t<stat>\n\t\t<name>MAIN.pools</name>\n\t\t\
             <value>2</value>\n\t\t<flag>g</flag>\n\t\t<format>i</format>\n\t\t\
             <description>Pools of &lt;threads&gt; &amp; \"more\"</description>\n\t</stat>\n</varnishstat>\n"
        );
        assert_eq!(
            list(points()[..1].iter()),
            "Varnishstat -f option fields:\nField name                     Description\n\
             ----------                     -----------\nMGT.uptime                     How long it runs\n"
        );
    }
}
