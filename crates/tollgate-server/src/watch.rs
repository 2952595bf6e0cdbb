//! Rule files, tokens and certificates, read anew when they change.
//!
//! Files are looked at now and then instead of watched: editors, configuration tools and Kubernetes replace them in ways
//! that watchers miss. A change must look the same twice before it is read, so that a file half written is left alone; what
//! never rests is read all the same after a while.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};
use tollgate_rules::{Format, read_paths};

use crate::{
    engine::Engine,
    health::Health,
    rulebook::Changes,
    security::{Access, RequiredSecret, Secret, Tls, TlsFiles, Tokens},
    shutdown::Shutdown,
    telemetry::SecretFile,
};

/// What is looked at.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) rules: Vec<PathBuf>,
    pub(crate) tokens: Option<PathBuf>,
    pub(crate) admin_token: Option<PathBuf>,
    pub(crate) auth_secret: Option<PathBuf>,
    pub(crate) tls: Option<TlsFiles>,
}

/// What is looked after: the files, and what is made of them.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) files: Files,
    pub(crate) engine: Engine,
    pub(crate) health: Health,
    pub(crate) access: Access,
    pub(crate) admin_token: RequiredSecret,
    pub(crate) auth_secret: RequiredSecret,
    pub(crate) tls: Vec<Tls>,
}

/// Asks for everything to be read now. Clones ask the same.
#[derive(Clone, Debug)]
pub struct Reload(mpsc::Sender<Option<Waiter>>);

/// A caller that waits for the outcome of a reload.
type Waiter = oneshot::Sender<Reloaded>;

/// The outcome of a reload that was asked for.
#[derive(Clone, Debug, Default)]
pub struct Reloaded {
    /// What the rule files have changed; nothing if they could not be read, or if there are none.
    pub changes: Changes,
    /// Mistakes in rule files, and secrets that could not be read. What was there before stays in force.
    pub problems: Vec<String>,
}

impl Reload {
    /// Asks; a request that is already waiting will do.
    pub fn request(&self) {
        let _ = self.0.try_send(None);
    }

    /// Asks, and waits until the files have been read; nothing while the server stops.
    pub async fn done(&self) -> Option<Reloaded> {
        let (waiter, outcome) = oneshot::channel();
        self.0.send(Some(waiter)).await.ok()?;
        outcome.await.ok()
    }
}

/// How files looked at one moment: each with its time, size and number on disk.
pub(crate) type Look = Vec<(PathBuf, Option<(SystemTime, u64, u64)>)>;

impl Files {
    pub(crate) fn look(&self) -> Look {
        self.all().into_iter().map(|file| (file.clone(), facts(&file))).collect()
    }

    fn all(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for path in &self.rules {
            files.push(path.clone());
            if let Ok(entries) = fs::read_dir(path) {
                files
                    .extend(entries.flatten().map(|entry| entry.path()).filter(|file| Format::of_path(file).is_some()));
            }
        }
        files.extend(self.tokens.clone());
        files.extend(self.admin_token.clone());
        files.extend(self.auth_secret.clone());
        if let Some(TlsFiles { cert, key, client_ca }) = &self.tls {
            files.extend([cert.clone(), key.clone()]);
            files.extend(client_ca.clone());
        }
        files.sort();
        files
    }
}

impl Watched {
    /// Looks until the word to stop. `in_force` is how the files looked before they were first read: what changes
    /// while a server starts is a change like any other.
    pub(crate) fn start(self, mut in_force: Look, every: Duration, mut shutdown: Shutdown) -> Reload {
        let (sender, mut requests) = mpsc::channel::<Option<Waiter>>(1);
        tokio::spawn(async move {
            let mut before = in_force.clone();
            let mut restless = 0;
            loop {
                let (asked, waiter) = tokio::select! {
                    () = shutdown.begun() => return,
                    () = sleep(every) => (false, None),
                    asked = requests.recv() => (asked.is_some(), asked.flatten()),
                };
                let files = self.files.clone();
                let Ok(now) = tokio::task::spawn_blocking(move || files.look()).await else { continue };
                let is_change = now != in_force;
                restless = if is_change { restless + 1 } else { 0 };
                let settled = now == before || restless >= MOST_LOOKS;
                before = now.clone();
                if asked || (settled && is_change) {
                    restless = 0;
                    let (this, was, is) = (self.clone(), in_force.clone(), now.clone());
                    let read = tokio::task::spawn_blocking(move || this.reload(asked, &was, &is)).await;
                    in_force = now;
                    if let (Some(waiter), Ok(outcome)) = (waiter, read) {
                        // A caller that has gone needs no answer.
                        let _ = waiter.send(outcome);
                    }
                }
            }
        });
        Reload(sender)
    }

    fn reload(&self, asked: bool, was: &Look, is: &Look) -> Reloaded {
        let mut outcome = Reloaded::default();
        let changed = |about: &[PathBuf]| {
            let of = |look: &Look| -> Look {
                look.iter().filter(|(file, _)| about.iter().any(|path| file.starts_with(path))).cloned().collect()
            };
            asked || of(was) != of(is)
        };
        let Files { rules, tokens, admin_token, auth_secret, tls } = &self.files;
        if !rules.is_empty() && changed(rules) {
            let before = self.engine.rulebook();
            match self.engine.load(read_paths(rules)) {
                Ok(()) => {
                    outcome.changes = self.engine.rulebook().changes_since(&before);
                    tracing::info!("the rule files were read again; their rules are in force");
                }
                Err(error) => {
                    tracing::error!("the rules before stay in force, because of mistakes: {error}");
                    outcome.problems.push(error.to_string());
                }
            }
        }
        if let Some(file) = tokens
            && changed(std::slice::from_ref(file))
        {
            let read = Tokens::read(file).map(|tokens| self.access.renew(tokens));
            outcome.problems.extend(self.tell(SecretFile::Tokens, "the tokens", read));
        }
        for (file, secret, what, name) in [
            (admin_token, &self.admin_token, SecretFile::AdminToken, "the admin token"),
            (auth_secret, &self.auth_secret, SecretFile::AuthSecret, "the secret of /v1/auth"),
        ] {
            if let Some(file) = file
                && changed(std::slice::from_ref(file))
            {
                let read = Secret::from_file(file).map(|read| secret.renew(read));
                let read = read.map_err(|error| format!("{}: {error}", file.display()));
                outcome.problems.extend(self.tell(what, name, read));
            }
        }
        if let Some(TlsFiles { cert, key, client_ca }) = tls {
            let files: Vec<PathBuf> = [cert, key].into_iter().chain(client_ca).cloned().collect();
            if changed(&files) {
                // The ports differ in what is spoken inside, not in their files: what fails for one fails for all.
                let read = self.tls.iter().try_for_each(Tls::renew);
                outcome.problems.extend(self.tell(SecretFile::Certificates, "the certificates", read));
            }
        }
        outcome
    }

    /// Says how the reading of a secret went, in the log and to whoever asks whether the server is ready.
    fn tell<E: std::fmt::Display>(&self, what: SecretFile, name: &str, read: Result<(), E>) -> Option<String> {
        let problem = read
            .err()
            .map(|error| format!("{name} could not be read again, and what was there before stays in force: {error}"));
        match &problem {
            None => tracing::info!("read again: {name}"),
            Some(problem) => tracing::error!("{problem}"),
        }
        self.health.secret_read(what, problem.clone());
        problem
    }
}

/// Through links, because what they point to is what is read. Of a directory it counts that it is there: its files are
/// looked at by themselves.
fn facts(file: &Path) -> Option<(SystemTime, u64, u64)> {
    let facts = fs::metadata(file).ok()?;
    if facts.is_dir() {
        return Some((SystemTime::UNIX_EPOCH, 0, 0));
    }
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(&facts);
    #[cfg(not(unix))]
    let number = 0;
    Some((facts.modified().ok()?, facts.len(), number))
}

/// A change that looks different each time is read after so many looks.
const MOST_LOOKS: u32 = 6;

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
