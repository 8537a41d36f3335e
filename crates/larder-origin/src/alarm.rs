//! The alarm of a connection: tells when nothing was sent or received for too long.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::time::{Instant, Sleep, sleep_until};

/// An alarm that is made when it is first needed, and then stays with its connection, as every request waits for its
/// origin, and making one costs an allocation and a place among the runtime's timers.
#[derive(Debug, Default)]
pub(crate) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Ready at `due`.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, due: Instant) -> Poll<()> {
        let alarm = self.0.get_or_insert_with(|| Box::pin(sleep_until(due)));
        // The alarm is not moved at every byte; if it rings too early, it is set again then.
        if due < alarm.deadline() {
            alarm.as_mut().reset(due);
        }
        loop {
            ready!(alarm.as_mut().poll(cx));
            if alarm.deadline() >= due {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, time::Duration};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_rings_when_it_is_due_whatever_it_was_set_to_before() {
        let mut alarm = Alarm::default();
        let start = Instant::now();
        let set = poll_fn(|cx| Poll::Ready(alarm.poll(cx, start + Duration::from_secs(60)))).await;
        assert!(set.is_pending());
        for due in [20, 70, 71] {
            poll_fn(|cx| alarm.poll(cx, start + Duration::from_secs(due))).await;
            assert_eq!(start.elapsed().as_secs(), due);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_alarm_of_an_earlier_request_does_not_ring_for_a_later_one() {
        let mut alarm = Alarm::default();
        let start = Instant::now();
        let set = poll_fn(|cx| Poll::Ready(alarm.poll(cx, start + Duration::from_secs(1)))).await;
        assert!(set.is_pending());
        tokio::time::sleep(Duration::from_secs(5)).await;
        let due = Instant::now() + Duration::from_secs(1);
        poll_fn(|cx| alarm.poll(cx, due)).await;
        assert!(Instant::now() >= due);
    }
}
