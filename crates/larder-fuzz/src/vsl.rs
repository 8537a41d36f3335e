//! The transaction log: what a server tells, and what is asked of it.

use std::time::Duration;

use larder_server::regex::Regex;
use larder_vsl::{
    Frame, Grouping, Groups, Kind, Limits, Member, Pattern, Pieces, Query, Reader, Tag, Transaction, Writer,
};

/// Frames: read in pieces and at once they are the same; groups have each transaction once, and nothing is kept behind
/// the end.
pub fn vsl_frames(data: &[u8]) {
    let (cut, stream) = data.split_first().map_or((1, data), |(cut, stream)| (usize::from(*cut).max(1), stream));
    let mut transactions = Vec::new();
    let (mut pieces, mut in_pieces) = (Pieces::default(), Vec::new());
    'pieces: for piece in stream.chunks(cut) {
        pieces.push(piece);
        loop {
            match pieces.next_frame() {
                Ok(Some(frame)) => in_pieces.push(frame),
                Ok(None) => break,
                Err(_) => break 'pieces,
            }
        }
    }
    if let Ok(mut reader) = Reader::new(stream) {
        for frame in in_pieces {
            assert_eq!(reader.next_frame().ok().flatten(), Some(frame.clone()));
            if let Frame::Transaction(transaction) = frame {
                assert_eq!(Transaction::from_bytes(transaction.bytes().to_vec()), Ok(transaction.clone()));
                transactions.push(transaction);
            }
        }
        assert!(!matches!(reader.next_frame(), Ok(Some(_))));
    }
    let limits = Limits { transactions: 8, time: Duration::from_secs(2), bytes: 1 << 12 };
    for grouping in [Grouping::Raw, Grouping::Vxid, Grouping::Request, Grouping::Session] {
        let mut groups = Groups::new(grouping, limits);
        for (second, transaction) in transactions.iter().enumerate() {
            groups.add(transaction.clone(), Duration::from_secs(second as u64));
            groups.pass_time(Duration::from_secs(second as u64));
        }
        groups.flush();
        assert_eq!(groups.deadline(), None);
        let mut records = 0;
        while let Some(group) = groups.next_ready() {
            assert_eq!(group.members[0].level, u32::from(grouping != Grouping::Raw));
            records += group.members.iter().map(|member| member.records().count()).sum::<usize>();
        }
        if grouping == Grouping::Raw {
            let came = transactions.iter().map(|transaction| transaction.records().count());
            assert_eq!(records, came.sum::<usize>());
        }
    }
}

/// Queries: what is refused says why and where, and what is accepted is true or false, twice the same.
pub fn vsl_query(data: &[u8]) {
    let parse = || Query::parse(data, false, &compile);
    match (parse(), parse()) {
        (Ok(one), Ok(other)) => {
            let mut groups = Groups::new(Grouping::Request, Limits::default());
            groups.add(transaction(), Duration::ZERO);
            let group = groups.next_ready().expect("a request without links is complete");
            assert_eq!(one.is_true_of(&group), other.is_true_of(&group));
            assert!(group.members.iter().map(Member::records).all(|records| records.count() > 0));
        }
        (Err(one), Err(other)) => {
            assert_eq!(one, other);
            assert!(one.at <= data.len() && !one.what.is_empty() && one.to_string().len() < 2000, "{one:?}");
        }
        (Ok(_), Err(_)) | (Err(_), Ok(_)) => panic!("it is read only sometimes"),
    }
}

fn transaction() -> Transaction {
    let mut writer = Writer::new(Kind::Request, 2);
    let records: [(Tag, &[u8]); 6] = [
        (Tag::Begin, b"req 1 rxreq"),
        (Tag::ReqUrl, b"/a?\xff"),
        (Tag::ReqHeader, b"Cookie: a \"b c\" d"),
        (Tag::RespStatus, b"200"),
        (Tag::Timestamp, b"Resp: 1.5 0.25 0.125"),
        (Tag::End, b""),
    ];
    for (tag, text) in records {
        writer.record(tag, usize::MAX, |out| out.extend_from_slice(text));
    }
    writer.finish()
}

#[derive(Debug)]
struct Expression(Regex);

impl Pattern for Expression {
    fn is_match(&self, text: &[u8]) -> Option<bool> {
        self.0.is_match(text).ok()
    }
}

fn compile(source: &str, caseless: bool) -> Result<Box<dyn Pattern>, String> {
    Ok(Box::new(Expression(Regex::limited(source, caseless, STEPS)?)))
}

/// The most steps of one match: what is tested is the language around expressions.
const STEPS: u32 = 1000;
