//! Executable documentation: every command in a `console` block must print the lines below it.
//!
//! Output lines longer than `WIDTH` are wrapped on the page; continuation lines are indented. `RATEKEEPER_RENEW=1`
//! rewrites the page with the actual output.

use std::{env, fs, path::Path, process::Command};

use crate::fixture::{Fixture, root};

/// The longest line of output on a page.
const WIDTH: usize = 120;
/// Begins a continuation line.
const INDENT: &str = "    ";

/// A page and the environment its commands run in.
pub(crate) struct Page<'a> {
    /// Its path in the repository.
    pub(crate) name: &'a str,
    /// The working directory of the commands.
    pub(crate) fixture: &'a Fixture,
    /// Text on the page and its replacement in this test: addresses, mostly.
    pub(crate) meant: &'a [(&'a str, &'a str)],
    /// A number after one of these words depends on the time of the run; of a span, only whether it is 0 is compared.
    pub(crate) momentary: &'a [&'a str],
    /// Least number of commands; fewer mean that they were not found.
    pub(crate) at_least: usize,
}

impl Page<'_> {
    pub(crate) fn check(&self) {
        let file = root().join(self.name);
        let page = fs::read_to_string(&file).unwrap();
        let (mut renewed, mut console, mut commands) = (String::new(), false, 0);
        let mut lines = page.lines();
        while let Some(line) = lines.next() {
            if let Some(command) = line.strip_prefix("$ ").filter(|_| console) {
                let mut command = command.to_owned();
                renewed.push_str(&format!("{line}\n"));
                // A command that continues on the next line.
                while command.ends_with('\\') {
                    let more = lines.next().unwrap();
                    renewed.push_str(&format!("{more}\n"));
                    command = format!("{command}\n{more}");
                }
                renewed.push_str(&self.shell(&command));
                commands += 1;
                continue;
            }
            let fence = line.starts_with("```");
            // The output on the page is replaced by that of this run.
            if !console || fence {
                renewed.push_str(line);
                renewed.push('\n');
            }
            console = if fence { line == "```console" } else { console };
        }
        assert!(commands >= self.at_least, "only {commands} commands were found");
        let (shown, printed) = (self.timeless(&unwrapped(&page)), self.timeless(&unwrapped(&renewed)));
        // A page that is true is not rewritten for numbers that depend on the time of the run.
        if env::var_os("RATEKEEPER_RENEW").is_some() {
            if shown != printed {
                fs::write(&file, &renewed).unwrap();
            }
            return;
        }
        for (number, (shown, printed)) in (1..).zip(shown.lines().zip(printed.lines())) {
            assert_eq!(shown, printed, "{}, about line {number}: RATEKEEPER_RENEW=1 rewrites it", self.name);
        }
        assert_eq!(shown.lines().count(), printed.lines().count(), "{} ends too early or too late", self.name);
    }

    /// The output of a command in a shell with `ratekeeper` on the path, wrapped.
    fn shell(&self, command: &str) -> String {
        let command = self.meant.iter().fold(command.to_owned(), |command, (said, meant)| command.replace(said, meant));
        let bin = Path::new(env!("CARGO_BIN_EXE_ratekeeper")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        let run = shell.args(["-c", &command]).env("PATH", path).current_dir(self.fixture.path("")).output().unwrap();
        let printed = String::from_utf8(run.stdout).unwrap() + &String::from_utf8(run.stderr).unwrap();
        let printed = printed.replace('\r', "");
        let printed = self.meant.iter().fold(printed, |printed, (said, meant)| printed.replace(meant, said));
        printed.lines().map(wrapped).collect()
    }

    /// The text with the momentary numbers replaced.
    fn timeless(&self, page: &str) -> String {
        let mut text = page.to_owned();
        for word in self.momentary {
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some(place) = rest.find(word) {
                let (before, after) = rest.split_at(place + word.len());
                // With its unit, which depends on the size.
                let end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.')).unwrap_or(after.len());
                out.push_str(before);
                let number = after.starts_with(|c: char| c.is_ascii_digit());
                let constant = !number || (word.ends_with("_us\":") && &after[..end] == "0");
                out.push_str(if constant { &after[..end] } else { "#" });
                rest = &after[end..];
            }
            out.push_str(rest);
            text = out;
        }
        text
    }
}

/// A line of output, broken after a comma or before a space where it is too long.
fn wrapped(line: &str) -> String {
    let (mut out, mut rest, mut width) = (String::new(), line, WIDTH);
    while rest.chars().count() > width {
        let limit = rest.char_indices().nth(width).map_or(rest.len(), |(at, _)| at);
        let Some(end) = rest[..limit].rfind([',', ' ']).filter(|end| !rest[..*end].trim().is_empty()) else { break };
        let end = if rest[end..].starts_with(',') { end + 1 } else { end };
        out += &rest[..end];
        out += "\n";
        out += INDENT;
        (rest, width) = (&rest[end..], WIDTH - INDENT.len());
    }
    out + rest + "\n"
}

/// The text with continuation lines joined: where a line breaks depends on the width of momentary numbers.
fn unwrapped(page: &str) -> String {
    page.replace(&format!("\n{INDENT}"), "")
}
