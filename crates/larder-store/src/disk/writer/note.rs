//! Notes in the folder how much is owed, for `larder cache`, which cannot see the memory.

use std::io;

use super::Writer;
use crate::disk::debt::DebtNote;

/// The file with the note. It is there while a process uses the folder and owes something.
pub(in crate::disk) const DEBT_FILE: &str = "larder.debt";

impl Writer {
    /// Notes how much is owed, if that has changed. Pages that only wait in the queue for a moment are not worth a
    /// file.
    pub(super) fn note_debt(&mut self) {
        let note = self.work.owes.note();
        let is_owed = note.pages > 0 && (self.noted.is_some() || self.work.queue.has_debts());
        if is_owed && self.noted != Some(note) {
            // If the note cannot be written, the next call tries again; requests do not depend on it.
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

    /// Deletes the note: nothing is owed, or this process gives up the folder.
    pub(super) fn take_note_away(&mut self) {
        if self.noted.take().is_some() {
            // If this fails, it does no harm: readers ignore it while no process uses the folder, and the next one
            // deletes it.
            let _ = self.shared.files.unlink(&self.shared.dir.join(DEBT_FILE));
        }
    }
}
