//! Interoperability peers: Redisson in a Java process, driven line by line, and scripts from published jars.
//!
//! `scripts/interop` builds and fetches all of it into `target/interop` (or where `RATEKEEPER_INTEROP` points). No
//! test is skipped without it: a missing part fails the test with a message that names the remedy.

use std::{
    env,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// Which of the releases of Redisson that `scripts/interop` has built.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Release {
    /// The newest there is.
    Current,
    /// One from before keep-alive times, releases and updates that keep state.
    Older,
    /// One of 3.16, whose grants no later release can read.
    Oldest,
}

/// Redisson in a separate process, with one client. Ends when dropped.
#[derive(Debug)]
pub struct Redisson {
    process: Child,
    /// Closed to end the process.
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    client_id: String,
}

impl Redisson {
    /// Starts it against the server at `url`.
    ///
    /// # Panics
    ///
    /// When it has not been built, or does not start.
    #[track_caller]
    pub fn start(release: Release, url: &str) -> Self {
        let folder = part(match release {
            Release::Current => "redisson/current",
            Release::Older => "redisson/older",
            Release::Oldest => "redisson/oldest",
        });
        let mut process = Command::new("java")
            .arg("-cp")
            .arg(folder.join("*"))
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "ratekeeper.interop.Main", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("java could not be started; `apt-get install default-jdk-headless` brings it");
        let questions = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("its output"));
        let mut redisson = Self { process, questions, answers, client_id: String::new() };
        redisson.client_id = redisson.answer().expect("a client");
        redisson
    }

    /// The UUID of its permits in the mode with a limit per client.
    pub fn client_id(&self) -> &str {
        &self.client_id
    }

    /// Sends one command and returns its result: a value, or the exception and its message.
    ///
    /// # Panics
    ///
    /// When the process is gone.
    #[track_caller]
    pub fn ask(&mut self, command: &str) -> Result<String, String> {
        self.send(command);
        self.answer()
    }

    /// The same; an exception ends the test.
    #[track_caller]
    pub fn tell(&mut self, command: &str) -> String {
        self.ask(command).unwrap_or_else(|error| panic!("Java, asked `{command}`, says {error}"))
    }

    /// Sends a command; [`Self::answer`] reads the result later.
    #[track_caller]
    pub fn send(&mut self, command: &str) {
        let questions = self.questions.as_mut().expect("open until dropped");
        writeln!(questions, "{command}").expect("Java to listen");
    }

    /// The result of the oldest command that has none yet.
    #[track_caller]
    pub fn answer(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("an answer from Java");
        let line = line.trim_end_matches('\n');
        if let Some(value) = line.strip_prefix("ok ") {
            return Ok(value.to_owned());
        }
        match line.strip_prefix("error ") {
            Some(error) => Err(error.to_owned()),
            None => panic!("Java has ended, with `{line}`"),
        }
    }
}

impl Drop for Redisson {
    fn drop(&mut self) {
        // The end of its input is not enough: a client that waits for permits does not read it.
        self.questions = None;
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A script from a jar that `scripts/interop` has fetched: `spring` or `soul`.
///
/// # Panics
///
/// When the jar is not there, or has no such script.
#[track_caller]
pub fn script_in(jar: &str, script: &str) -> String {
    let jar = part(&format!("gateway/{jar}.jar"));
    let folder = tempfile::tempdir().expect("a directory");
    let unpacked = Command::new("jar")
        .args(["--extract", "--file"])
        .arg(&jar)
        .arg(script)
        .current_dir(folder.path())
        .status()
        .expect("jar could not be started; `apt-get install default-jdk-headless` brings it");
    assert!(unpacked.success(), "{} could not be unpacked", jar.display());
    std::fs::read_to_string(folder.path().join(script))
        .unwrap_or_else(|error| panic!("{} has no {script}: {error}", jar.display()))
}

#[track_caller]
fn part(name: &str) -> PathBuf {
    let named = env::var_os("RATEKEEPER_INTEROP").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/interop"));
    let part = folder.join(name);
    assert!(
        part.exists(),
        "{} is missing; `scripts/interop --build` makes it (Java 17 and Maven; from Debian: `apt-get install \
         default-jdk-headless maven`)",
        part.display()
    );
    part.canonicalize().expect("a path that exists")
}
