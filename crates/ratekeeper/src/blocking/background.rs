//! A tokio runtime on one background thread, for a store whose caller has none.
//!
//! The thread drives sockets, timers and the store's tasks; the futures of requests are polled on the threads that ask.
//! Dropping the runtime ends the thread and closes the connections. That works in a task as well, because the thread itself
//! drops the runtime.

use std::{io, thread};

use tokio::{
    runtime::{Builder, Handle},
    sync::oneshot,
};

/// The background thread; it ends when this is dropped.
pub(super) struct BackgroundRuntime {
    pub(super) handle: Handle,
    /// Dropped to end the thread.
    _running: oneshot::Sender<()>,
}

impl BackgroundRuntime {
    /// Starts the thread. The error is that of the operating system.
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (running, ended) = oneshot::channel();
        thread::Builder::new().name("ratekeeper".to_owned()).spawn(move || {
            // An error means that the other end was dropped.
            let _ = runtime.block_on(ended);
        })?;
        Ok(Self { handle, _running: running })
    }
}
