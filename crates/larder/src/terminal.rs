//! The terminal of programs that show a screen and refresh it each second.

use std::io::{self, Write as _};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// How many rows the terminal has.
pub fn rows() -> usize {
    tcgetwinsize(io::stdout()).map_or(USUAL_ROWS, |size| usize::from(size.ws_row))
}

/// What was typed.
pub enum Key {
    /// Nothing for a second.
    None,
    /// Something without a meaning.
    Other,
    /// Scroll down by this many lines, or a screen.
    Down(Option<usize>),
    /// The same up.
    Up(Option<usize>),
    /// End; or there is no more input.
    End,
}

/// Waits for a key for a second.
pub fn key() -> io::Result<Key> {
    let input = io::stdin();
    let mut fds = [PollFd::new(&input, PollFlags::IN)];
    match poll(&mut fds, Some(&REFRESH)) {
        Ok(0) | Err(Errno::INTR) => return Ok(Key::None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut bytes = [0; 16];
    let count = rustix::io::read(&input, &mut bytes)?;
    Ok(match bytes[..count].first().copied() {
        None | Some(b'q' | b'Q' | CTRL_C | CTRL_D) => Key::End,
        Some(b'j') => Key::Down(Some(1)),
        Some(b'k') => Key::Up(Some(1)),
        Some(b' ') => Key::Down(None),
        Some(b'b') => Key::Up(None),
        Some(_) => Key::Other,
    })
}

/// The terminal, which is as it was when this is dropped.
pub struct Terminal {
    /// How the input was, if it is a terminal.
    before: Option<Termios>,
}

impl Terminal {
    /// Takes the keys one by one, unseen, and another screen.
    pub fn take() -> io::Result<Terminal> {
        let before = tcgetattr(io::stdin()).ok();
        if let Some(before) = &before {
            let mut now = before.clone();
            // Ctrl-C is a key like others, so that the terminal is put back before the end.
            now.local_modes &= !(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
            now.special_codes[SpecialCodeIndex::VMIN] = 1;
            now.special_codes[SpecialCodeIndex::VTIME] = 0;
            tcsetattr(io::stdin(), OptionalActions::Now, &now)?;
        }
        let terminal = Terminal { before };
        io::stdout().write_all(b"\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J")?;
        Ok(terminal)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Whoever has taken the terminal away needs nothing of this.
        let _ = io::stdout().write_all(b"\x1b[?7h\x1b[?25h\x1b[?1049l");
        let _ = io::stdout().flush();
        if let Some(before) = &self.before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
        }
    }
}

const REFRESH: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
/// The rows of a terminal that does not say how many it has.
const USUAL_ROWS: usize = 24;
