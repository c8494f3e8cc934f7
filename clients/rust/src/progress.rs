// Calls a caller's function with the progress of a transfer. The reported bytes only rise, whatever is sent or read
// again.

use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
pub(crate) struct Progress(Option<Arc<Mutex<Reported>>>);

/// The bytes so far, and all of them where that is known.
type Report = dyn FnMut(u64, Option<u64>) + Send;

struct Reported {
    highest: u64,
    report: Box<Report>,
}

impl Progress {
    pub(crate) fn new(report: impl FnMut(u64, Option<u64>) + Send + 'static) -> Self {
        Self(Some(Arc::new(Mutex::new(Reported { highest: 0, report: Box::new(report) }))))
    }

    pub(crate) fn report(&self, bytes: u64, total: Option<u64>) {
        let Some(Ok(mut reported)) = self.0.as_ref().map(|reported| reported.lock()) else { return };
        if bytes > reported.highest {
            reported.highest = bytes;
            (reported.report)(bytes, total);
        }
    }
}
