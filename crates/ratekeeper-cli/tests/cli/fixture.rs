//! Fixture of the command tests: a temporary directory with files, in which the command runs.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

/// A temporary directory, deleted when dropped.
pub(crate) struct Fixture {
    directory: PathBuf,
}

/// Output and exit code of a command.
pub(crate) struct Run {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i32,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("fixture-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&directory).unwrap();
        Self { directory }
    }

    /// One policy with these rules.
    pub(crate) fn with_rules(rules: &[&str]) -> Self {
        let listed: String = rules.iter().map(|rule| format!("      - {{ {rule} }}\n")).collect();
        let text =
            format!("domain: test\npolicies:\n  - name: per-user\n    match: {{ user: \"*\" }}\n    rules:\n{listed}");
        Self::new().file("rules.yaml", &text)
    }

    pub(crate) fn file(self, name: &str, text: impl AsRef<[u8]>) -> Self {
        fs::write(self.directory.join(name), text).unwrap();
        self
    }

    pub(crate) fn requests(self, text: impl AsRef<[u8]>) -> Self {
        self.file("requests.csv", text)
    }

    /// `ratekeeper simulate` on the rules and requests of this directory.
    pub(crate) fn simulate(&self, more: &[&str]) -> Run {
        self.run(&[&["simulate", "--rules", "rules.yaml", "--requests", "requests.csv"], more].concat())
    }

    pub(crate) fn explain(&self, line: &str) -> String {
        let run = self.run(&["explain", "--rules", "rules.yaml", "--requests", "requests.csv", "--line", line]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.stdout
    }

    pub(crate) fn run(&self, args: &[&str]) -> Run {
        self.run_with(args, b"")
    }

    pub(crate) fn run_with(&self, args: &[&str], input: &[u8]) -> Run {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        // A command with invalid options does not read its input.
        let _ = child.stdin.take().unwrap().write_all(input);
        child.wait_with_output().unwrap().into()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ratekeeper"));
        command.args(args).current_dir(&self.directory).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap(),
        }
    }
}

impl Run {
    /// The lines of standard output, if the command succeeded without messages.
    pub(crate) fn lines(&self) -> Vec<&str> {
        assert_eq!((self.stderr.as_str(), self.code), ("", 0));
        self.stdout.lines().collect()
    }

    /// One field of every JSON line.
    pub(crate) fn field(&self, name: &str) -> Vec<serde_json::Value> {
        let parse = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap()[name].clone();
        self.lines().into_iter().map(parse).collect()
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
