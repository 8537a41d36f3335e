//! How much is owed, noted in the folder: who looks from outside sees nothing of the memory.

use std::io;

use super::Writer;
use crate::disk::debt::DebtNote;

/// The file that says it, as long as a process has the folder and owes something.
pub(in crate::disk) const DEBT_FILE: &str = "larder.debt";

impl Writer {
    /// Notes how much is owed when that has changed. What waits in the queue for a moment is not worth a file.
    pub(super) fn note_debt(&mut self) {
        let note = self.work.owes.note();
        let is_owed = note.pages > 0 && (self.noted.is_some() || self.work.queue.has_debts());
        if is_owed && self.noted != Some(note) {
            // One that cannot be written is tried again; nobody is served worse without it.
            self.noted = self.write_note(note).is_ok().then_some(note).or(self.noted);
        } else if !is_owed {
            self.take_note_away();
        }
    }

    fn write_note(&self, note: DebtNote) -> io::Result<()> {
        let (files, path) = (&self.shared.files, self.shared.dir.join(DEBT_FILE));
        let file = match files.create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => files.open_to_extend(&path),
            other => other,
        };
        file?.write_at(note.encode().as_bytes(), 0)
    }

    /// Nothing is owed, or not by this process any more.
    pub(super) fn take_note_away(&mut self) {
        if self.noted.take().is_some() {
            // It says something only while the folder is in use, and whoever opens it next takes it away.
            let _ = self.shared.files.unlink(&self.shared.dir.join(DEBT_FILE));
        }
    }
}
