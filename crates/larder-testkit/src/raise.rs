//! A flag that ends what runs beside a test.

use std::sync::atomic::{AtomicBool, Ordering};

/// Raises its flag when it is dropped: a test that fails then ends the threads beside it, too. Without it a scope of threads
/// that loop until the flag is up waits for them for ever.
pub struct RaiseOnDrop<'a>(pub &'a AtomicBool);

impl Drop for RaiseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn a_panic_raises_the_flag() {
        let flag = AtomicBool::new(false);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            let _over = RaiseOnDrop(&flag);
            panic!("a test fails");
        }));
        assert!(failed.is_err() && flag.load(Ordering::Relaxed));
    }
}
