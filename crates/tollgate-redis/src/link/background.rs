//! Work that goes on beside the callers, as long as there is a runtime to do it.
//!
//! A link may be made before any runtime is there, and may outlive the one its work was started on. So work is not
//! started once and trusted to be there, but looked for by whoever needs it, and started again when it is gone.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio::{runtime::Handle, task::AbortHandle};

/// One piece of work, running or not. Ends with its owner.
#[derive(Debug, Default)]
pub(crate) struct Background {
    is_running: Arc<AtomicBool>,
    task: Mutex<Option<AbortHandle>>,
}

impl Background {
    /// Starts the work unless it is running. Outside of a runtime nothing happens; the next caller tries again.
    pub(crate) fn ensure<W>(&self, work: impl FnOnce() -> W)
    where
        W: Future<Output = ()> + Send + 'static,
    {
        if self.is_running.load(Ordering::Relaxed) {
            return;
        }
        let Ok(runtime) = Handle::try_current() else { return };
        if self.is_running.swap(true, Ordering::AcqRel) {
            return;
        }
        let (end, work) = (End(self.is_running.clone()), work());
        let task = runtime.spawn(async move {
            let _end = end;
            work.await;
        });
        *self.task.lock() = Some(task.abort_handle());
    }
}

impl Background {
    /// Whether the work is going on.
    pub(crate) fn is_running(&self) -> bool {
        self.is_running.load(Ordering::Relaxed)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(task) = self.task.get_mut().take() {
            task.abort();
        }
    }
}

/// Dropped with the task, however that ends: done, aborted, or lost with its runtime.
struct End(Arc<AtomicBool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
