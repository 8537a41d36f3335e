//! Waiting for a form that is being made.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::{Form, Forms, Shape, Stage};

/// A request's place among those that wait for a form.
pub struct FormWaiter {
    forms: Arc<Forms>,
    shape: Shape,
}

impl FormWaiter {
    pub(super) fn new(forms: &Arc<Forms>, shape: Shape) -> Self {
        Self { forms: Arc::clone(forms), shape }
    }

    /// Waits until the form is made. `None` if it will not be made, or not within `patience`: send the body as it is.
    pub async fn wait(self, patience: Duration) -> Option<Arc<Form>> {
        timeout(patience, self.change()).await.ok()?
    }

    async fn change(&self) -> Option<Arc<Form>> {
        let place = self.forms.place(self.shape);
        loop {
            let changed = self.forms.changed.notified();
            tokio::pin!(changed);
            // Enabled before the check, so that a change in between is not missed.
            changed.as_mut().enable();
            // The stage first: once it is no longer `Making`, the form is there or will not come.
            if place.stage.load() != Stage::Making {
                return place.ready().map(|form| form.to_arc());
            }
            changed.await;
        }
    }
}

impl fmt::Debug for FormWaiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FormWaiter({:?})", self.shape)
    }
}
