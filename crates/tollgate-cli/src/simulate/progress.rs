//! A sign of life for long runs: on a terminal, and only where it does not get between the answers.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressStyle};

use super::requests::Requests;

/// Shows how far a requests file has been read.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn of(requests: &Requests) -> Self {
        let welcome = io::stderr().is_terminal() && !io::stdout().is_terminal();
        Self { bar: welcome.then(|| bar(requests.progress().1)) }
    }

    /// Tells it that this request has been answered.
    #[inline]
    pub(crate) fn at(&self, number: u64, requests: &Requests) {
        if let Some(bar) = &self.bar
            && number.is_multiple_of(TELL_EVERY)
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

/// Requests between two looks at the terminal: a hundredth of a second or so.
const TELL_EVERY: u64 = 1 << 14;
