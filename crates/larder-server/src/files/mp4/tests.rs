use std::io;

use larder_testkit::{Film, Layout, Sample, atom};

use super::{Cut, Mp4Error, ReadAt, Wanted, cut, milliseconds};

struct InMemory<'a>(&'a [u8]);

impl ReadAt for InMemory<'_> {
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let bytes = usize::try_from(at).ok().and_then(|at| self.0.get(at..)?.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

fn wanted(start_ms: u64, length_ms: u64) -> Wanted {
    Wanted { start_ms, length_ms, from_key_frame: false, moov_bytes_max: 1 << 20 }
}

fn cut_file(file: &[u8], wanted: &Wanted) -> Result<Vec<u8>, Mp4Error> {
    Ok(match cut(&InMemory(file), file.len() as u64, wanted)? {
        Cut::Whole => file.to_vec(),
        Cut::Part(mut head, data) => {
            head.extend_from_slice(&file[data.start as usize..data.end as usize]);
            head
        }
    })
}

/// The samples of a track that are expected, and how many ticks of them are hidden.
fn expected(timescale: u32, samples: &[Sample], wanted: &Wanted) -> (Vec<Sample>, u64) {
    let ticks = |ms: u64| ms * u64::from(timescale) / 1000;
    let ends = |samples: &[Sample]| {
        let mut at = 0;
        samples
            .iter()
            .map(move |sample| {
                at += u64::from(sample.duration);
                at
            })
            .collect::<Vec<u64>>()
    };
    let start = ends(samples).iter().take_while(|end| **end <= ticks(wanted.start_ms)).count();
    let key =
        samples[..=start].iter().rposition(|sample| sample.is_key).filter(|_| wanted.from_key_frame).unwrap_or(start);
    let hidden = samples[key..start].iter().map(|sample| u64::from(sample.duration)).sum();
    let rest = &samples[key..];
    let count = match wanted.length_ms {
        0 => rest.len(),
        length => ends(rest).iter().take_while(|end| **end <= ticks(length) + hidden).count(),
    };
    (rest[..count].to_vec(), hidden)
}

#[test]
fn the_samples_of_the_time_that_is_asked_for_are_sent() {
    let film = Film::of_seconds(12);
    let bits = |number: u8| (0..6).map(|bit| number >> bit & 1 == 1).collect::<Vec<_>>();
    for bits in (0..64).map(bits) {
        let layout = Layout {
            data_first: bits[0],
            is_wide: bits[1],
            long_sizes: bits[2],
            has_offsets: bits[3],
            has_extras: bits[4],
            is_uniform: false,
        };
        let file = film.write(layout);
        for start in [0, 1, 249, 250, 1000, 2750, 7300, 9333, 11_900] {
            for length in [0, 100, 260, 1000, 1500, 5000, 100_000] {
                let wanted = Wanted { from_key_frame: bits[5], ..wanted(start, length) };
                let what = format!("{layout:?} {wanted:?}");
                let part = match cut_file(&file, &wanted) {
                    Ok(part) => part,
                    Err(Mp4Error::Empty | Mp4Error::EndOut(_)) => {
                        let left = |track: &larder_testkit::Track| {
                            !expected(track.timescale, &track.samples, &wanted).0.is_empty()
                        };
                        assert!(!film.tracks.iter().any(left), "{what}");
                        continue;
                    }
                    Err(error) => panic!("{what}: {error}"),
                };
                let read = Film::read(&part).unwrap_or_else(|| panic!("{what}: no film"));
                for (track, cut) in film.tracks.iter().zip(&read.tracks) {
                    let (mut samples, hidden) = expected(track.timescale, &track.samples, &wanted);
                    if start == 0 && length == 0 && !layout.data_first {
                        assert_eq!(part, file, "{what}");
                    }
                    if !layout.has_offsets {
                        samples.iter_mut().for_each(|sample| sample.offset = 0);
                    }
                    assert_eq!((&cut.samples, cut.hidden), (&samples, hidden), "{what}");
                }
            }
        }
    }
}

#[test]
fn tracks_of_equal_samples_say_so_once() {
    let mut film = Film::of_seconds(5);
    film.tracks.remove(0);
    let file = film.write(Layout { is_uniform: true, ..Layout::default() });
    for (start, length, first, count) in [(0, 1000, 0, 10), (1250, 0, 12, 38), (730, 470, 7, 4), (4999, 0, 49, 1)] {
        let read = Film::read(&cut_file(&file, &wanted(start, length)).unwrap()).unwrap();
        assert_eq!(read.tracks[0].samples, film.tracks[0].samples[first..first + count], "{start} {length}");
    }
}

#[test]
fn a_track_that_is_over_is_left_out() {
    let mut film = Film::of_seconds(10);
    film.tracks[1].samples.truncate(30);
    let file = film.write(Layout::default());
    for (start, tracks) in [(2000, 2), (2999, 2), (3000, 1), (9000, 1)] {
        let read = Film::read(&cut_file(&file, &wanted(start, 0)).unwrap()).unwrap();
        assert_eq!(read.tracks.len(), tracks, "{start}");
    }
    assert!(matches!(cut_file(&file, &wanted(10_250, 0)), Err(Mp4Error::Missing("trak"))));
    assert!(matches!(cut_file(&file, &wanted(11_000, 0)), Err(Mp4Error::StartTooLate)));
}

#[test]
fn what_is_no_film_is_refused() {
    let ftyp = atom(b"ftyp", &[b"isom"]);
    let mdat = atom(b"mdat", &[b"data"]);
    let moov = |content: &[u8]| atom(b"moov", &[content]);
    let table = |name: &[u8; 4], count: u32| {
        let stbl = atom(b"stbl", &[&atom(name, &[&[0; 4], &count.to_be_bytes(), &[0; 16]])]);
        moov(&atom(b"trak", &[&atom(b"mdia", &[&atom(b"minf", &[&stbl])])]))
    };
    for (parts, error) in [
        (vec![], "no mp4 trak atoms were found"),
        (vec![ftyp.clone()], "no mp4 trak atoms were found"),
        (vec![ftyp.clone(), ftyp.clone()], "duplicate mp4 ftyp atom"),
        (vec![atom(b"ftyp", &[&[0; 1025]])], "mp4 ftyp atom is too large: 1025"),
        (vec![ftyp.clone(), vec![0, 0]], "mp4 file truncated"),
        (vec![vec![0, 0, 0, 9, b'm', b'o', b'o', b'v']], "mp4 atom too large: 9"),
        (vec![vec![0, 0, 0, 7, b'm', b'o', b'o', b'v']], "mp4 atom is too small: 7"),
        (vec![vec![0, 0, 0, 1, b'm', b'o', b'o', b'v', 0, 0, 0, 0, 0, 0, 0, 15]], "mp4 atom is too small: 15"),
        (vec![vec![0, 0, 0, 1, b'm', b'o', b'o', b'v'], vec![0xff; 8]], "mp4 atom too large: 18446744073709551615"),
        (vec![mdat.clone()], "no mp4 trak atoms were found"),
        (vec![mdat.clone(), mdat.clone()], "duplicate mp4 mdat atom"),
        (vec![moov(b"")], "no mp4 mdat atoms were found"),
        (vec![moov(b""), mdat.clone()], "no mp4 trak atoms were found"),
        (vec![moov(&atom(b"cmov", &[])), mdat.clone()], "mp4 compressed moov atom (cmov) is not supported"),
        (vec![moov(&atom(b"mvhd", &[&[0; 99]])), mdat.clone()], "mp4 mvhd atom too small"),
        (vec![moov(&atom(b"trak", &[])), mdat.clone()], "no mp4 stts atoms were found"),
        (vec![moov(&[0; 1 << 20]), moov(&[0; (1 << 20) + 1])], "duplicate mp4 moov atom"),
        (
            vec![moov(&[0; (1 << 20) + 1])],
            "mp4 moov atom is too large: 1048577, you may want to increase mp4_max_buffer_size",
        ),
        (vec![table(b"stts", 3), mdat.clone()], "mp4 stts atom too small"),
        (vec![table(b"stts", u32::MAX), mdat.clone()], "mp4 stts atom too small"),
        (vec![table(b"stsc", 2), mdat.clone()], "mp4 stsc atom too small"),
        (vec![table(b"co64", 3), mdat.clone()], "mp4 co64 atom too small"),
        (vec![table(b"stts", 2), mdat.clone()], "no mp4 stsc atoms were found"),
    ] {
        let file = parts.concat();
        let said = cut_file(&file, &wanted(1, 0)).err().map(|error| error.to_string());
        assert_eq!(said.as_deref(), Some(error));
    }
}

/// Pseudo-random numbers, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap_or(0)
    }
}

/// How many damaged films are tried.
const FILMS: u32 = 5000;

#[test]
fn damaged_films_are_refused_or_cut_within_the_file() {
    let mut chance = Chance(20);
    let film = Film::of_seconds(4);
    let odd = [0, 1, 2, 7, 8, 0x7f, 0x80, 0xff];
    for round in 0..FILMS {
        let bit = |bit: u32| round >> bit & 1 == 1;
        let layout = Layout {
            data_first: bit(0),
            is_wide: bit(1),
            long_sizes: bit(2),
            is_uniform: bit(3),
            has_offsets: bit(4),
            has_extras: bit(5),
        };
        let mut file = film.write(layout);
        // Most of what matters is numbers, at multiples of four.
        for _ in 0..=chance.below(6) {
            let at = chance.below(file.len() / 4) * 4 + chance.below(4);
            file[at] = odd[chance.below(odd.len())];
        }
        if bit(6) {
            file.truncate(chance.below(file.len()));
        }
        let wanted = Wanted {
            start_ms: [0, 1, 1500, 3900, u64::MAX][chance.below(5)],
            length_ms: [0, 1, 700, 2000, u64::MAX][chance.below(5)],
            from_key_frame: bit(7),
            moov_bytes_max: 1 << 16,
        };
        if let Ok(Cut::Part(head, data)) = cut(&InMemory(&file), file.len() as u64, &wanted) {
            assert!(data.start < data.end && data.end <= file.len() as u64, "{round} {wanted:?}");
            assert!(head.len() <= file.len() + 200, "{round} {wanted:?}");
        }
    }
}

#[test]
fn seconds_have_three_digits_that_count() {
    for (text, ms) in [
        ("0", Some(0)),
        ("1", Some(1000)),
        ("1.5", Some(1500)),
        ("1.23456789", Some(1234)),
        (".5", Some(500)),
        ("1.", Some(1000)),
        (".", Some(0)),
        ("", None),
        ("1.2.3", None),
        ("-1", None),
        ("1e3", None),
        ("1.00x", None),
        ("9223372036854775", Some(9_223_372_036_854_775_000)),
        ("9223372036854776", None),
        ("99999999999999999999999", None),
    ] {
        assert_eq!(milliseconds(text.as_bytes()), ms, "{text}");
    }
}
