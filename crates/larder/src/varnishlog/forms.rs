//! What varnishlog writes: text in the form of varnishlog 7.1, or frames to be read again.

use std::io::Write;

use larder_vsl::{FRAME_BYTES_MAX, Filter, Form as TagForm, Frame, GREETING, Group, Kind, Record, Writer};

use crate::vsl::Form;

/// Text.
#[derive(Debug)]
pub struct Text {
    /// What is shown.
    pub filter: Filter,
    /// Whether each record has the number of its transaction.
    pub verbose: bool,
    /// Whether each group is written at once.
    pub unbuffered: bool,
}

/// Frames, for `-r`.
#[derive(Debug)]
pub struct Frames {
    filter: Filter,
    unbuffered: bool,
    /// Lone records of one transaction.
    lone: Option<Lone>,
}

#[derive(Debug)]
struct Lone {
    vxid: u64,
    kind: Kind,
    writer: Writer,
}

impl Form for Text {
    fn filter(&self) -> &Filter {
        &self.filter
    }

    fn append(&mut self, group: &Group, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        let mut has_heads = false;
        for member in group.members.iter().filter(|member| self.filter.shows(member)) {
            let verbose = self.verbose || member.level == 0;
            if member.level > 0 {
                mark(member.level, '*', out);
                let (front, between) = if verbose { (11, 2) } else { (0, 0) };
                let kind = match member.kind {
                    None => "<< Unknown  >>",
                    Some(Kind::Session) => "<< Session  >>",
                    Some(Kind::Request) => "<< Request  >>",
                    Some(Kind::BeReq) => "<< BeReq    >>",
                    Some(Kind::Raw) => "<< Record   >>",
                };
                // Writing to a buffer does not fail, here and below.
                let _ = writeln!(out, "{:front$}{kind} {:between$}{:<10}", "", "", member.vxid);
                has_heads = true;
            }
            for (record, side) in member.records().filter(|(record, side)| self.filter.takes(*record, *side)) {
                if member.level > 0 {
                    mark(member.level, '-', out);
                }
                if verbose {
                    let (name, side) = (record.tag.name(), char::from(side as u8));
                    let _ = write!(out, "{:>10} {name:<14} {side} ", member.vxid);
                } else {
                    let _ = write!(out, "{:<14} ", record.tag.name());
                }
                append_text(record, out);
                out.push(b'\n');
            }
        }
        if has_heads {
            out.push(b'\n');
        }
        out.len() > start
    }

    fn is_unbuffered(&self) -> bool {
        self.unbuffered
    }
}

/// The level in front of a line: `**  `, `*4* `.
fn mark(level: u32, with: char, out: &mut Vec<u8>) {
    let _ = match level {
        1..=3 => write!(out, "{:<3} ", with.to_string().repeat(level as usize)),
        _ => write!(out, "{with}{level}{with} "),
    };
}

fn append_text(record: Record<'_>, out: &mut Vec<u8>) {
    match record.tag.form() {
        // What is text ends at a zero byte, as in Varnish.
        TagForm::Plain | TagForm::Unused => {
            let end = record.text.iter().position(|byte| *byte == 0).unwrap_or(record.text.len());
            append_plain(&record.text[..end], out);
        }
        TagForm::Quoted => {
            out.push(b'"');
            for byte in record.text {
                let _ = if (b' '..=b'~').contains(byte) { out.write_all(&[*byte]) } else { write!(out, "%{byte:02x}") };
            }
            out.push(b'"');
        }
        TagForm::Hexadecimal => {
            out.push(b'[');
            for byte in record.text {
                let _ = write!(out, "{byte:02x}");
            }
            out.push(b']');
        }
    }
}

/// Adds a text without what a terminal obeys, and as one line: a client has written some of it.
fn append_plain(text: &[u8], out: &mut Vec<u8>) {
    let mut before = 0;
    for &byte in text {
        // The second one is the form of U+0080 to U+009F in UTF-8.
        if byte < b' ' && byte != b'\t' || byte == 0x7f || before == 0xc2 && (0x80..0xa0).contains(&byte) {
            out.extend(byte.escape_ascii());
        } else {
            out.push(byte);
        }
        before = byte;
    }
}

impl Frames {
    /// Frames of what a filter shows.
    pub fn new(filter: Filter, unbuffered: bool) -> Self {
        Self { filter, unbuffered, lone: None }
    }

    /// Adds a record that stands alone to those of its transaction in front of it, so that these are one frame.
    fn append_lone(&mut self, vxid: u64, kind: Kind, record: Record<'_>, out: &mut Vec<u8>) {
        if self.lone.as_ref().is_some_and(|lone| (lone.vxid, lone.kind) != (vxid, kind)) {
            self.finish(out);
        }
        let lone = self.lone.get_or_insert_with(|| Lone { vxid, kind, writer: Writer::new(kind, vxid) });
        append_record(record, &mut lone.writer);
    }
}

impl Form for Frames {
    const HEAD: &'static [u8] = GREETING;

    fn filter(&self) -> &Filter {
        &self.filter
    }

    fn append(&mut self, group: &Group, out: &mut Vec<u8>) -> bool {
        let mut has_any = false;
        for member in &group.members {
            let taken: Vec<_> = member.records().filter(|(record, side)| self.filter.takes(*record, *side)).collect();
            if taken.is_empty() {
                continue;
            }
            has_any = true;
            if let Some(kind) = member.lone_of {
                taken.into_iter().for_each(|(record, _)| self.append_lone(member.vxid, kind, record, out));
                continue;
            }
            let mut writer = Writer::new(member.kind.unwrap_or(Kind::Raw), member.vxid);
            taken.into_iter().for_each(|(record, _)| append_record(record, &mut writer));
            Frame::append_transaction(&writer.finish(), out);
        }
        has_any
    }

    fn append_lost(&mut self, count: u64, out: &mut Vec<u8>) {
        self.finish(out);
        Frame::append_lost(count, out);
    }

    fn finish(&mut self, out: &mut Vec<u8>) {
        if let Some(lone) = self.lone.take() {
            Frame::append_transaction(&lone.writer.finish(), out);
        }
    }

    fn is_unbuffered(&self) -> bool {
        self.unbuffered
    }
}

/// Adds a record, if the frame does not grow longer than any that is read.
fn append_record(record: Record<'_>, writer: &mut Writer) {
    if writer.len() + record.text.len() + ROOM_BYTES < FRAME_BYTES_MAX {
        writer.record(record.tag, usize::MAX, |out| out.extend_from_slice(record.text));
    }
}

/// For the head of a record and of a frame.
const ROOM_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use larder_vsl::{Grouping, Groups, Limits, Tag, Transaction};
    use std::time::Duration;

    fn groups(grouping: Grouping, transactions: Vec<Transaction>) -> Vec<Group> {
        let mut groups = Groups::new(grouping, Limits::default());
        transactions.into_iter().for_each(|transaction| groups.add(transaction, Duration::ZERO));
        std::iter::from_fn(|| groups.next_ready()).collect()
    }

    fn transaction(kind: Kind, vxid: u64, records: &[(Tag, &[u8])]) -> Transaction {
        let mut writer = Writer::new(kind, vxid);
        for (tag, text) in records {
            writer.record(*tag, usize::MAX, |out| out.extend_from_slice(text));
        }
        writer.finish()
    }

    fn text(group: &Group, verbose: bool) -> String {
        let mut out = Vec::new();
        let mut text = Text { filter: Filter::default(), verbose, unbuffered: false };
        assert!(text.append(group, &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_are_those_of_varnishlog() {
        let inner = |vxid: u64, parent: &[u8]| transaction(Kind::Request, vxid, &[(Tag::Begin, parent)]);
        let group = groups(
            Grouping::Request,
            vec![
                inner(5, b"req 4 esi"),
                inner(4, b"req 3 esi"),
                inner(3, b"req 2 esi"),
                transaction(Kind::Request, 2, &[(Tag::Begin, b"req 1 rxreq"), (Tag::Filters, b"")]),
            ],
        );
        let expected = "*   << Request  >> 2         \n-   Begin          req 1 rxreq\n-   Filters        \n\
                        **  << Request  >> 3         \n--  Begin          req 2 esi\n\
                        *** << Request  >> 4         \n--- Begin          req 3 esi\n\
                        *4* << Request  >> 5         \n-4- Begin          req 4 esi\n\n";
        assert_eq!(text(&group[0], false), expected);
        let expected = "*              << Request  >>   2         \n-            2 Begin          c req 1 rxreq\n\
                        -            2 Filters        c \n";
        assert!(text(&group[0], true).starts_with(expected), "{}", text(&group[0], true));
    }

    #[test]
    fn bytes_are_printed_by_their_tag() {
        let bytes = b"a\"\xff\n\0b";
        for (tag, expected) in [
            (Tag::VclLog, "         7 VCL_Log        b a\"\u{fffd}\\n\n"),
            (Tag::Debug, "         7 Debug          b \"a\"%ff%0a%00b\"\n"),
            (Tag::H2RxHdr, "         7 H2RxHdr        b [6122ff0a0062]\n"),
        ] {
            let group = groups(Grouping::Raw, vec![transaction(Kind::BeReq, 7, &[(tag, bytes)])]);
            let mut out = Vec::new();
            Text { filter: Filter::default(), verbose: false, unbuffered: false }.append(&group[0], &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn lone_records_of_a_transaction_are_one_frame() {
        let one = transaction(Kind::Session, 1, &[(Tag::Begin, b"sess 0 HTTP/1"), (Tag::SessClose, b"REM_CLOSE 0.1")]);
        let other = transaction(Kind::Request, 1, &[(Tag::Begin, b"req 0 rxreq")]);
        let (mut frames, mut out) = (Frames::new(Filter::default(), false), Vec::new());
        for group in groups(Grouping::Raw, vec![one.clone(), other.clone()]) {
            assert!(frames.append(&group, &mut out));
        }
        frames.append_lost(2, &mut out);
        let mut expected = Vec::new();
        Frame::append_transaction(&one, &mut expected);
        Frame::append_transaction(&other, &mut expected);
        Frame::append_lost(2, &mut expected);
        assert_eq!(out, expected);
        frames.finish(&mut out);
        assert_eq!(out, expected);
    }
}
