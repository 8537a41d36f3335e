//! What a director asks about its members.

/// The number of a BACKEND; the table is in [`directors`](super).
pub type Number = u32;

/// Who knows about the health of members.
pub trait Judge {
    /// Whether a backend is healthy, or a director has a healthy member.
    fn is_healthy(&self, backend: Number) -> bool;

    /// When that has changed, in seconds since 1970; 0 if it never has.
    fn changed(&self, backend: Number) -> f64;
}

/// The members that a test calls sick; all others are healthy, since the time 0.
#[cfg(test)]
pub struct Sick<'a>(pub &'a [Number]);

#[cfg(test)]
impl Judge for Sick<'_> {
    fn is_healthy(&self, backend: Number) -> bool {
        !self.0.contains(&backend)
    }

    fn changed(&self, _: Number) -> f64 {
        0.0
    }
}
