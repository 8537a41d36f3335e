//! From a source to an output, until something ends it.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use larder_server::clock;
use larder_server::vsl::LISTENERS_MAX;
use larder_vsl::{Asked, Filter, Frame, FrameError, Group, Grouping, Groups, Query, QueryError};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::options::{Place, QueryPlace, Rate, Reading};
use super::output::Output;
use super::regex;
use super::source::Source;
use crate::daemon::Waiting;
use crate::oserror::{CallFailed, Reason};
use crate::pidfile::PidFile;
use crate::told::Unread;

/// How groups are written.
pub trait Form {
    /// What an empty file begins with.
    const HEAD: &'static [u8] = b"";

    /// Which transactions it shows.
    fn filter(&self) -> &Filter;

    /// Appends a group; returns whether there was something to show.
    fn append(&mut self, group: &Group, out: &mut Vec<u8>) -> bool;

    /// Appends that transactions were lost.
    fn append_lost(&mut self, _count: u64, _out: &mut Vec<u8>) {}

    /// Appends what was held back.
    fn finish(&mut self, _out: &mut Vec<u8>) {}

    /// Whether each group is written at once.
    fn is_unbuffered(&self) -> bool {
        false
    }
}

/// Why a log cannot be read on.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// What is wrong with an option, beyond its letter.
    #[error("-{0}: {1}")]
    Option(char, String),
    /// A regular expression.
    #[error("--match: {0}")]
    Match(String),
    /// A file of an option.
    #[error("-{letter} {}: it cannot be read {}", path.display(), Reason(source))]
    OptionFile {
        /// The option.
        letter: char,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The query.
    #[error("the query cannot be read: {0}")]
    Query(#[from] QueryError),
    /// The server or file.
    #[error(transparent)]
    Open(#[from] Unread),
    /// What came from there.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It broke off.
    #[error("the log breaks off: what was in front of that is shown")]
    Torn,
    /// As many listen as may.
    #[error("{LISTENERS_MAX} others listen to this log already: end one of them")]
    Full,
    /// Where it is written to.
    #[error("{name} cannot be written {}", Reason(source))]
    Output {
        /// What it is called.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// Something else of the system.
    #[error(transparent)]
    Call(#[from] CallFailed),
}

/// What a signal asks for, or the reader of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    End,
    Reopen,
    Flush,
}

/// Reads a log and shows it. `waiting` is who started this process as a daemon.
pub fn run<F: Form>(reading: &Reading, form: &mut F, waiting: Option<Waiting>) -> Result<(), RunError> {
    let query = query(reading)?;
    let signals = signals()?;
    // Before the output, which a second process would empty.
    let _pid_file = reading.pid_file.as_deref().map(PidFile::write_locked).transpose()?;
    let path = reading.write.as_deref();
    let output = Output::open(path, reading.append, F::HEAD).map_err(|source| RunError::Output {
        name: path.map_or_else(|| "standard output".to_owned(), |path| path.display().to_string()),
        source,
    })?;
    let mut runner = Runner {
        reading,
        form,
        query,
        signals,
        output,
        groups: Groups::new(reading.grouping, reading.limits),
        left: reading.groups_max,
        credit: Credit::new(reading.rate),
    };
    let Some(source) = runner.attach()? else { return Ok(()) };
    waiting.map_or(Ok(()), Waiting::leave_terminal)?;
    let ended = runner.read(source);
    runner.form.finish(&mut runner.output.buffer);
    let flushed = runner.output.flush();
    let name = runner.output.name();
    match ended.and_then(|()| flushed.map_err(|source| RunError::Output { name, source })) {
        // Whoever read it has seen enough.
        Err(RunError::Output { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => ended,
    }
}

fn query(reading: &Reading) -> Result<Option<Query>, RunError> {
    if reading.queries.is_empty() {
        return Ok(None);
    }
    let mut texts = Vec::new();
    for place in &reading.queries {
        texts.push(match place {
            QueryPlace::Here(text) => text.clone(),
            QueryPlace::File(path) => {
                fs::read(path).map_err(|source| RunError::OptionFile { letter: 'Q', path: path.clone(), source })?
            }
        });
    }
    Ok(Some(Query::parse(&texts.join(&b"\n"[..]), reading.caseless, &regex::compile)?))
}

/// The signals that mean something, to be read when there is time for them.
fn signals() -> Result<SignalFd, CallFailed> {
    let mut set = SigSet::empty();
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM, Signal::SIGUSR1] {
        set.add(signal);
    }
    set.thread_block().map_err(|error| CallFailed::new("sigprocmask", error))?;
    let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
    SignalFd::with_flags(&set, flags).map_err(|error| CallFailed::new("signalfd", error))
}

struct Runner<'a, F> {
    reading: &'a Reading,
    form: &'a mut F,
    query: Option<Query>,
    signals: SignalFd,
    output: Output,
    groups: Groups,
    /// How many groups are still to be shown; `None` for all.
    left: Option<u64>,
    credit: Credit,
}

impl<F: Form> Runner<'_, F> {
    /// The source, as soon as it is there. `None` if a signal came first.
    fn attach(&mut self) -> Result<Option<Source>, RunError> {
        let began = clock::steady();
        loop {
            match Source::open(&self.reading.place, self.asked()) {
                Err(Unread::NoServer { .. })
                    if self.reading.patience.is_none_or(|patience| clock::steady() - began < patience) => {}
                opened => return Ok(Some(opened?)),
            }
            if self.wait(None, Some(ASK_EVERY))?.is_ended() {
                return Ok(None);
            }
        }
    }

    fn asked(&self) -> Asked {
        if self.reading.kept { Asked::Kept } else { Asked::Coming }
    }

    /// Shows what comes, until there is enough of it or it ends.
    fn read(&mut self, mut source: Source) -> Result<(), RunError> {
        let mut is_complete = matches!(self.reading.place, Place::File(_));
        let is_live = matches!(self.reading.place, Place::Server(_)) && !self.reading.kept;
        loop {
            while let Some(frame) = source.next_frame()? {
                let now = clock::steady();
                match frame {
                    Frame::Transaction(transaction) => self.groups.add(transaction, now),
                    Frame::Lost(count) => self.lose(count),
                    Frame::End if is_live => return Err(RunError::Full),
                    Frame::End => is_complete = true,
                }
                self.groups.pass_time(now);
                if self.show()?.is_ended() {
                    return Ok(());
                }
            }
            self.groups.pass_time(clock::steady());
            if self.show()?.is_ended() {
                return Ok(());
            }
            match self.wait_for(&source)? {
                Next::End => return Ok(()),
                Next::Nothing => continue,
                Next::Piece => {}
            }
            let goes_on = source.read().map_err(FrameError::from)?;
            if goes_on {
                continue;
            }
            self.groups.flush();
            if self.show()?.is_ended() {
                return Ok(());
            }
            match is_live {
                true => match self.attach_again()? {
                    Some(again) => source = again,
                    None => return Ok(()),
                },
                false if is_complete && source.is_whole() => return Ok(()),
                false => return Err(RunError::Torn),
            }
        }
    }

    /// The server has ended: waits for the next one, for ever. `None` if a signal came first.
    fn attach_again(&mut self) -> Result<Option<Source>, RunError> {
        let program = self.reading.program;
        eprintln!("larder {program}: Log abandoned: the server has ended, or gave this reader up");
        self.flush()?;
        loop {
            // A server that gives up each reader at once is not asked all the time.
            if self.wait(None, Some(ASK_EVERY))?.is_ended() {
                return Ok(None);
            }
            match Source::open(&self.reading.place, self.asked()) {
                Ok(source) => {
                    eprintln!("larder {program}: Log reacquired");
                    return Ok(Some(source));
                }
                // It may still be setting up its socket.
                Err(Unread::NoServer { .. } | Unread::Forbidden(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn lose(&mut self, count: u64) {
        let program = self.reading.program;
        let (what, were) = if count == 1 { ("transaction", "was") } else { ("transactions", "were") };
        eprintln!("larder {program}: {count} {what} {were} lost, as this reader is too slow");
        self.form.append_lost(count, &mut self.output.buffer);
    }

    /// Shows the groups that are complete.
    fn show(&mut self) -> Result<Next, RunError> {
        while let Some(group) = self.groups.next_ready() {
            if self.left == Some(0) {
                return Ok(Next::End);
            }
            // Alone, what is not shown is not asked about either.
            let is_hidden = self.reading.grouping == Grouping::Vxid && !self.form.filter().shows(&group.members[0]);
            if is_hidden || self.query.as_ref().is_some_and(|query| !query.is_true_of(&group)) {
                continue;
            }
            if !self.credit.take(clock::steady()) || !self.form.append(&group, &mut self.output.buffer) {
                continue;
            }
            self.left = self.left.map(|left| left - 1);
            let written = if self.form.is_unbuffered() { self.output.flush() } else { self.output.give_way() };
            written.map_err(|source| self.cannot_write(source))?;
            if self.left == Some(0) {
                return Ok(Next::End);
            }
        }
        Ok(Next::Nothing)
    }

    fn flush(&mut self) -> Result<(), RunError> {
        self.form.finish(&mut self.output.buffer);
        self.output.flush().map_err(|source| self.cannot_write(source))
    }

    fn cannot_write(&self, source: io::Error) -> RunError {
        RunError::Output { name: self.output.name(), source }
    }

    /// Waits until a piece of a source is there. If it takes time, what was gathered is written first.
    fn wait_for(&mut self, source: &Source) -> Result<Next, RunError> {
        match self.wait(Some(source), Some(Duration::ZERO))? {
            Next::Nothing => {}
            next => return Ok(next),
        }
        self.flush()?;
        let until = self.groups.deadline().map(|deadline| deadline.saturating_sub(clock::steady()));
        self.wait(Some(source), until)
    }

    /// Waits until a piece of a source is there, or that time is over, or somebody orders something.
    fn wait(&mut self, source: Option<&Source>, time: Option<Duration>) -> Result<Next, RunError> {
        let time = time.and_then(|time| {
            Some(Timespec { tv_sec: time.as_secs().try_into().ok()?, tv_nsec: time.subsec_nanos().into() })
        });
        let signals = self.signals.as_fd();
        let mut places = vec![
            PollFd::from_borrowed_fd(signals, PollFlags::IN),
            // Whether whoever reads it has gone.
            PollFd::from_borrowed_fd(self.output.as_fd(), PollFlags::empty()),
        ];
        if let Some(source) = source {
            places.push(PollFd::from_borrowed_fd(source.as_fd(), PollFlags::IN));
        }
        match poll(&mut places, time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(CallFailed::new("poll", error).into()),
        }
        let found: Vec<PollFlags> = places.iter().map(PollFd::revents).collect();
        if found[1].intersects(PollFlags::ERR | PollFlags::HUP) {
            return Ok(Next::End);
        }
        while let Some(order) = self.order()? {
            match order {
                Order::End => return Ok(Next::End),
                Order::Reopen => self.reopen()?,
                Order::Flush => self.groups.flush(),
            }
        }
        Ok(if found.get(2).is_some_and(|found| !found.is_empty()) { Next::Piece } else { Next::Nothing })
    }

    /// What a signal asks for.
    fn order(&mut self) -> Result<Option<Order>, CallFailed> {
        let signal = self.signals.read_signal().map_err(|error| CallFailed::new("read", error))?;
        let number = signal.and_then(|signal| i32::try_from(signal.ssi_signo).ok());
        Ok(match number.map(Signal::try_from) {
            // A terminal that is closed.
            Some(Ok(Signal::SIGHUP)) if !self.output.is_file() => Some(Order::End),
            Some(Ok(Signal::SIGHUP)) => Some(Order::Reopen),
            Some(Ok(Signal::SIGUSR1)) => Some(Order::Flush),
            Some(_) => Some(Order::End),
            None => None,
        })
    }

    fn reopen(&mut self) -> Result<(), RunError> {
        self.flush()?;
        if let Err(error) = self.output.reopen() {
            let (program, name) = (self.reading.program, self.output.name());
            eprintln!("larder {program}: {name} cannot be opened again {}: the old file goes on", Reason(&error));
        }
        Ok(())
    }
}

/// How reading goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Piece,
    End,
}

impl Next {
    fn is_ended(self) -> bool {
        self == Self::End
    }
}

/// How many groups may be shown now.
#[derive(Debug)]
struct Credit {
    rate: Option<Rate>,
    credit: f64,
    /// When it was last looked at, by a clock that nobody sets.
    at: Duration,
}

impl Credit {
    fn new(rate: Option<Rate>) -> Self {
        Self { rate, credit: 1.0, at: clock::steady() }
    }

    /// Takes one, if there is one.
    fn take(&mut self, now: Duration) -> bool {
        let Some(rate) = self.rate else { return true };
        let grown = now.saturating_sub(self.at).as_secs_f64() / rate.time.as_secs_f64() * f64::from(rate.groups);
        self.credit = (self.credit + grown).min(f64::from(rate.groups));
        self.at = now;
        let has_one = self.credit >= 1.0;
        self.credit -= f64::from(u8::from(has_one));
        has_one
    }
}

/// How often a server that is not there is asked, as by varnishlog.
const ASK_EVERY: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_lets_so_many_through() {
        let mut credit = Credit::new(Some(Rate { groups: 2, time: Duration::from_secs(10) }));
        let began = credit.at;
        let mut at = |seconds: u64| credit.take(began + Duration::from_secs(seconds));
        let taken = [0, 0, 4, 5, 5, 9, 10, 1000, 1000, 1000].map(&mut at);
        assert_eq!(taken, [true, false, false, true, false, false, true, true, true, false]);
        let mut free = Credit::new(None);
        assert!((0..100).all(|_| free.take(began)));
    }
}
