//! Progress bar for long runs: only on a terminal, and only if standard output is not the same terminal.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

use super::requests::Requests;

/// Shows how far a requests file has been read.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn of(requests: &Requests) -> Self {
        let is_shown = io::stderr().is_terminal() && !io::stdout().is_terminal();
        Self { bar: is_shown.then(|| bar(requests.progress().1)) }
    }

    /// Updates the bar after this request.
    #[inline]
    pub(crate) fn at(&self, number: u64, requests: &Requests) {
        if let Some(bar) = &self.bar
            && number.is_multiple_of(UPDATE_EVERY)
        {
            bar.set_position(requests.progress().0);
            bar.set_message(format!("{number} requests"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn bar(size: Option<u64>) -> ProgressBar {
    let (bar, template) = match size {
        Some(bytes) => (ProgressBar::new(bytes), "{bar:30} {percent}% {msg} {eta}"),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} {msg}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Requests between two updates: about 10 ms.
const UPDATE_EVERY: u64 = 1 << 14;
