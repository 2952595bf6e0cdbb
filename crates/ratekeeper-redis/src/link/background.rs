//! A background task that is restarted when its runtime is gone.
//!
//! A link may be opened before a tokio runtime exists and may outlive the runtime its task was started on. So every
//! caller that relies on the task calls [`Background::ensure`], which starts it unless it runs. The task ends with its
//! owner.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;
use tokio::{runtime::Handle, task::AbortHandle};

/// One background task, running or not.
#[derive(Debug, Default)]
pub(crate) struct Background {
    is_running: Arc<AtomicBool>,
    task: Mutex<Option<AbortHandle>>,
}

impl Background {
    /// Starts the task unless it runs. Outside of a runtime nothing happens; the next caller tries again.
    pub(crate) fn ensure<W>(&self, task: impl FnOnce() -> W)
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
        let (end, task) = (End(self.is_running.clone()), task());
        let task = runtime.spawn(async move {
            let _end = end;
            task.await;
        });
        *self.task.lock() = Some(task.abort_handle());
    }

    /// Whether the task runs.
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

/// Dropped with the task, whether it returns, is aborted, or is lost with its runtime.
struct End(Arc<AtomicBool>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}
