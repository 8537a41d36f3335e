//! Applies several changes to a body, one after the other.

use super::change::{Change, Fed, MADE_BYTES};

/// Changes in their order.
pub struct Chain<C> {
    links: Vec<Link<C>>,
    /// Whether the first link has more output for the input it took. Only the first may decompress, which can make much
    /// output of little input.
    first_has_more: bool,
}

struct Link<C> {
    change: C,
    /// The output of this link that the next one has not taken.
    made: Vec<u8>,
    /// How much of it the next one has taken.
    at: usize,
}

impl<C: Change> Chain<C> {
    /// A chain of these changes. Only the first may decompress.
    pub fn new(changes: Vec<C>) -> Self {
        let links = changes.into_iter().map(|change| Link { change, made: Vec::new(), at: 0 }).collect();
        Self { links, first_has_more: false }
    }

    /// Takes bytes from `input`, and appends the output of the last link.
    pub fn feed(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Fed, String> {
        loop {
            self.drain(out)?;
            let has_more = self.first_has_more || !input.is_empty() || self.is_waiting();
            if !has_more {
                return Ok(Fed::All);
            }
            if out.len() >= MADE_BYTES {
                return Ok(Fed::Some);
            }
            if self.is_waiting() {
                continue;
            }
            let Some((first, rest)) = self.links.split_first_mut() else {
                out.extend_from_slice(input);
                *input = &[];
                return Ok(Fed::All);
            };
            let into = if rest.is_empty() { &mut *out } else { &mut first.made };
            self.first_has_more = first.change.feed(input, into)? == Fed::Some;
        }
    }

    /// Appends what the links hold back, for a client that waits.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        self.drain_all(out)?;
        for n in 0..self.links.len() {
            let is_last = n + 1 == self.links.len();
            let link = &mut self.links[n];
            link.change.flush(if is_last { out } else { &mut link.made })?;
            self.drain_all(out)?;
        }
        Ok(())
    }

    /// Ends each link, and appends its last output.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<(), String> {
        self.drain_all(out)?;
        let count = self.links.len();
        let mut end = Vec::new();
        for (n, Link { mut change, .. }) in self.links.into_iter().enumerate() {
            let mut made = Vec::new();
            let into = if n + 1 == count { &mut *out } else { &mut made };
            let mut input = &end[..];
            while change.feed(&mut input, into)? == Fed::Some {}
            change.finish(into)?;
            end = made;
        }
        Ok(())
    }

    /// Whether output of a link waits for the next one.
    fn is_waiting(&self) -> bool {
        self.links.iter().any(|link| link.at < link.made.len())
    }

    fn drain_all(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        while self.is_waiting() {
            self.drain(out)?;
        }
        Ok(())
    }

    /// Passes on the output that waits between links, the last link's first, each once.
    fn drain(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        for n in (1..self.links.len()).rev() {
            let is_last = n + 1 == self.links.len();
            let (before, after) = self.links.split_at_mut(n);
            let (Some(from), Some(to)) = (before.last_mut(), after.first_mut()) else { continue };
            let waiting = from.made.get(from.at..).unwrap_or_default();
            if waiting.is_empty() {
                continue;
            }
            let mut input = waiting;
            to.change.feed(&mut input, if is_last { &mut *out } else { &mut to.made })?;
            let left = input.len();
            from.at = from.made.len() - left;
            if left == 0 {
                from.made.clear();
                from.at = 0;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use larder_compress::{Decoder, Effort, Encoder, Params, compress, restore};
    use larder_http::Coding;

    use crate::filter::needles::Needles;
    use crate::filter::sub::Substitution;

    use super::*;
    use crate::request::recode::Recoder;

    fn substitution(from: &str, to: &str) -> Recoder {
        let needles = Needles::new(vec![from.as_bytes().into()]).expect("one text to look for");
        Recoder::Substitute(Box::new(Substitution::new(needles, vec![to.into()], false)))
    }

    fn through(mut chain: Chain<Recoder>, body: &[u8], piece: usize) -> Vec<u8> {
        let (mut all, mut out) = (Vec::new(), Vec::new());
        for mut input in body.chunks(piece) {
            while chain.feed(&mut input, &mut out).expect("fed") == Fed::Some {
                all.append(&mut out);
            }
            assert!(input.is_empty());
        }
        chain.flush(&mut out).expect("flushed");
        chain.finish(&mut out).expect("finished");
        all.append(&mut out);
        all
    }

    #[test]
    fn each_link_sees_what_the_one_before_made() {
        for piece in [1, 2, 7, 1000] {
            let chain = Chain::new(vec![substitution("one", "two"), substitution("two", "three")]);
            assert_eq!(through(chain, b"one, two, on", piece), b"three, three, on", "{piece}");
        }
    }

    #[test]
    fn a_body_is_restored_changed_and_compressed_again() {
        let body = b"a page of words. ".repeat(2000);
        let packed = compress(std::iter::once(&body[..]), Coding::Gzip, Effort::Quick(1)).expect("compressed");
        for piece in [100, 5000] {
            let chain = Chain::new(vec![
                Recoder::Decode(Decoder::new(Coding::Gzip).expect("a decoder")),
                substitution("page", "pile"),
                Recoder::Encode(Encoder::new(Coding::Gzip, Params::new(Coding::Gzip, 1)).expect("an encoder")),
            ]);
            let made = through(chain, &packed, piece);
            let plain = restore(std::iter::once(&made[..]), Coding::Gzip, 1 << 20).expect("restored");
            assert_eq!(plain, b"a pile of words. ".repeat(2000), "{piece}");
        }
    }

    #[test]
    fn what_grows_comes_out_in_parts() {
        let mut chain = Chain::new(vec![substitution("a", &"b".repeat(10_000)), substitution("b", "cc")]);
        let body = [b'a'; 100];
        let (mut input, mut out, mut total, mut parts) = (&body[..], Vec::new(), 0, 0);
        loop {
            let fed = chain.feed(&mut input, &mut out).expect("fed");
            assert!(out.len() < 4 * MADE_BYTES, "{}", out.len());
            total += out.len();
            parts += 1;
            out.clear();
            if fed == Fed::All {
                break;
            }
        }
        chain.finish(&mut out).expect("finished");
        assert_eq!(total + out.len(), 100 * 10_000 * 2);
        assert!(parts > 5, "{parts}");
    }
}
