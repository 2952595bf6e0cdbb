//! A page of the documentation that is run: every command in a `console` block must print what stands below it.
//!
//! `TOLLGATE_RENEW=1` writes the page anew with what the commands print.

use std::{env, fs, path::Path, process::Command};

use crate::desk::{Desk, root};

/// How a page is run.
pub(crate) struct Page<'a> {
    /// Its file, from the root of the repository.
    pub(crate) name: &'a str,
    /// Where its commands are typed.
    pub(crate) desk: &'a Desk,
    /// What the page says, and what is meant in this test: addresses, mostly.
    pub(crate) meant: &'a [(&'a str, &'a str)],
    /// What follows these words is a number that depends on the moment; of a span, all but whether it is 0.
    pub(crate) momentary: &'a [&'a str],
    /// Fewer commands mean that they were not found.
    pub(crate) at_least: usize,
}

impl Page<'_> {
    pub(crate) fn is_true(&self) {
        let file = root().join(self.name);
        let page = fs::read_to_string(&file).unwrap();
        let (mut renewed, mut console, mut commands) = (String::new(), false, 0);
        let mut lines = page.lines();
        while let Some(line) = lines.next() {
            if let Some(command) = line.strip_prefix("$ ").filter(|_| console) {
                let mut command = command.to_owned();
                renewed.push_str(&format!("{line}\n"));
                // A command that goes on in the next line.
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
            // What a command printed last time is replaced by what it prints now.
            if !console || fence {
                renewed.push_str(line);
                renewed.push('\n');
            }
            console = if fence { line == "```console" } else { console };
        }
        assert!(commands >= self.at_least, "only {commands} commands were found");
        let (shown, told) = (self.timeless(&page), self.timeless(&renewed));
        // A page that is true is left alone: a number of this moment is no better than one of another.
        if env::var_os("TOLLGATE_RENEW").is_some() {
            if shown != told {
                fs::write(&file, &renewed).unwrap();
            }
            return;
        }
        for (number, (shown, told)) in (1..).zip(shown.lines().zip(told.lines())) {
            assert_eq!(shown, told, "{}:{number}: TOLLGATE_RENEW=1 writes the page anew", self.name);
        }
        assert_eq!(shown.lines().count(), told.lines().count(), "{} ends too early or too late", self.name);
    }

    /// What a shell prints in which our command is on the path.
    fn shell(&self, command: &str) -> String {
        let command = self.meant.iter().fold(command.to_owned(), |command, (said, meant)| command.replace(said, meant));
        let bin = Path::new(env!("CARGO_BIN_EXE_tollgate")).parent().unwrap();
        let path = format!("{}:{}", bin.display(), env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        let run = shell.args(["-c", &command]).env("PATH", path).current_dir(self.desk.path("")).output().unwrap();
        let told = String::from_utf8(run.stdout).unwrap() + &String::from_utf8(run.stderr).unwrap();
        let told = told.replace('\r', "");
        let told = self.meant.iter().fold(told, |told, (said, meant)| told.replace(meant, said));
        // Not every answer ends its line, and the next prompt should not stand behind it.
        if told.is_empty() || told.ends_with('\n') { told } else { told + "\n" }
    }

    fn timeless(&self, page: &str) -> String {
        let mut text = page.to_owned();
        for word in self.momentary {
            let mut out = String::new();
            let mut rest = text.as_str();
            while let Some(place) = rest.find(word) {
                let (before, after) = rest.split_at(place + word.len());
                // With its unit, which changes with its size.
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
