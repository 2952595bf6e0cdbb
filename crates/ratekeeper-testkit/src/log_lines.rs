//! Captured log lines: a writer for a subscriber of `tracing`, shared with the test that reads them.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What was written so far. Clones share their lines, so `with_writer(move || lines.clone())` captures a log.
#[derive(Clone, Debug, Default)]
pub struct LogLines(Arc<Mutex<Vec<u8>>>);

impl LogLines {
    /// All lines.
    pub fn all(&self) -> Vec<String> {
        String::from_utf8_lossy(&self.bytes()).lines().map(str::to_owned).collect()
    }

    /// The lines that contain a text.
    pub fn with(&self, text: &str) -> Vec<String> {
        self.all().into_iter().filter(|line| line.contains(text)).collect()
    }

    fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
