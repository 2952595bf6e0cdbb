//! File watcher: reloads rule files, secrets and certificates when they change.
//!
//! Files are polled, because editors, configuration tools and Kubernetes replace them in ways that file system events
//! miss. A change is read when two consecutive polls see the same state, so that a half-written file is not read.
//!
//! Bound: files that keep changing are read after [`MAX_POLLS`] polls.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use ratekeeper_rules::{Format, read_paths};
use tokio::{
    sync::{mpsc, oneshot},
    time::sleep,
};

use crate::{
    engine::Engine,
    health::Health,
    rulebook::Changes,
    security::{Access, RequiredSecret, Secret, Tls, TlsFiles, Tokens},
    shutdown::Shutdown,
    telemetry::SecretFile,
};

/// The files that are watched.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub(crate) rules: Vec<PathBuf>,
    pub(crate) tokens: Option<PathBuf>,
    pub(crate) admin_token: Option<PathBuf>,
    pub(crate) auth_secret: Option<PathBuf>,
    pub(crate) tls: Option<TlsFiles>,
}

/// The watched files, and the parts of the server that are updated from them.
#[derive(Clone, Debug)]
pub(crate) struct FileWatcher {
    pub(crate) files: Files,
    pub(crate) engine: Engine,
    pub(crate) health: Health,
    pub(crate) access: Access,
    pub(crate) admin_token: RequiredSecret,
    pub(crate) auth_secret: RequiredSecret,
    pub(crate) tls: Vec<Tls>,
}

/// Requests a reload of all files. Clones address the same watcher.
#[derive(Clone, Debug)]
pub struct Reload(mpsc::Sender<Option<Waiter>>);

/// A caller that waits for the outcome of a reload.
type Waiter = oneshot::Sender<Reloaded>;

/// The outcome of a requested reload.
#[derive(Clone, Debug, Default)]
pub struct Reloaded {
    /// Changes of the rules. Empty if the rule files could not be loaded, or if there are none.
    pub changes: Changes,
    /// Errors in rule files, and secrets that could not be read. Their previous content stays in force.
    pub problems: Vec<String>,
}

impl Reload {
    /// Requests a reload without waiting for it. Has no effect if a request is already queued.
    pub fn request(&self) {
        let _ = self.0.try_send(None);
    }

    /// Requests a reload and waits for its outcome. `None` if the server is stopping.
    pub async fn done(&self) -> Option<Reloaded> {
        let (waiter, outcome) = oneshot::channel();
        self.0.send(Some(waiter)).await.ok()?;
        outcome.await.ok()
    }
}

/// State of the files at one poll: modification time, size and inode. `None` if a file's metadata cannot be read.
pub(crate) type FileSnapshot = Vec<(PathBuf, Option<(SystemTime, u64, u64)>)>;

impl Files {
    pub(crate) fn snapshot(&self) -> FileSnapshot {
        self.all().into_iter().map(|file| (file.clone(), file_version(&file))).collect()
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

impl FileWatcher {
    /// Polls until shutdown. `in_force` is the snapshot from before the files were first read, so that a change during
    /// startup is detected.
    pub(crate) fn start(self, mut in_force: FileSnapshot, every: Duration, mut shutdown: Shutdown) -> Reload {
        let (sender, mut requests) = mpsc::channel::<Option<Waiter>>(1);
        tokio::spawn(async move {
            let mut before = in_force.clone();
            let mut unsettled_polls = 0;
            loop {
                let (requested, waiter) = tokio::select! {
                    () = shutdown.begun() => return,
                    () = sleep(every) => (false, None),
                    request = requests.recv() => (request.is_some(), request.flatten()),
                };
                let files = self.files.clone();
                let Ok(now) = tokio::task::spawn_blocking(move || files.snapshot()).await else { continue };
                let is_change = now != in_force;
                unsettled_polls = if is_change { unsettled_polls + 1 } else { 0 };
                let settled = now == before || unsettled_polls >= MAX_POLLS;
                before = now.clone();
                if requested || (settled && is_change) {
                    unsettled_polls = 0;
                    let (this, was, is) = (self.clone(), in_force.clone(), now.clone());
                    let read = tokio::task::spawn_blocking(move || this.reload(requested, &was, &is)).await;
                    in_force = now;
                    if let (Some(waiter), Ok(outcome)) = (waiter, read) {
                        // The send fails if the caller has been dropped, for example by a closed connection.
                        let _ = waiter.send(outcome);
                    }
                }
            }
        });
        Reload(sender)
    }

    fn reload(&self, requested: bool, was: &FileSnapshot, is: &FileSnapshot) -> Reloaded {
        let mut outcome = Reloaded::default();
        let changed = |paths: &[PathBuf]| {
            let of = |snapshot: &FileSnapshot| -> FileSnapshot {
                snapshot.iter().filter(|(file, _)| paths.iter().any(|path| file.starts_with(path))).cloned().collect()
            };
            requested || of(was) != of(is)
        };
        let Files { rules, tokens, admin_token, auth_secret, tls } = &self.files;
        if !rules.is_empty() && changed(rules) {
            let before = self.engine.rulebook();
            match self.engine.load(read_paths(rules)) {
                Ok(()) => {
                    outcome.changes = self.engine.rulebook().changes_since(&before);
                    tracing::info!("the rule files were reloaded; their rules are in force");
                }
                Err(error) => {
                    tracing::error!("the rule files have errors; the previous rules stay in force: {error}");
                    outcome.problems.push(error.to_string());
                }
            }
        }
        if let Some(file) = tokens
            && changed(std::slice::from_ref(file))
        {
            let read = Tokens::read(file).map(|tokens| self.access.renew(tokens));
            outcome.problems.extend(self.report(SecretFile::Tokens, "the tokens", read));
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
                outcome.problems.extend(self.report(what, name, read));
            }
        }
        if let Some(TlsFiles { cert, key, client_ca }) = tls {
            let files: Vec<PathBuf> = [cert, key].into_iter().chain(client_ca).cloned().collect();
            if changed(&files) {
                // The ports differ in ALPN, not in their files: an error for one is an error for all.
                let read = self.tls.iter().try_for_each(Tls::renew);
                outcome.problems.extend(self.report(SecretFile::Certificates, "the certificates", read));
            }
        }
        outcome
    }

    /// Reports the outcome of reading a secret to the log and to the health check. Returns the error message, if any.
    fn report<E: std::fmt::Display>(&self, what: SecretFile, name: &str, read: Result<(), E>) -> Option<String> {
        let problem = read
            .err()
            .map(|error| format!("{name} could not be reloaded; the previous version stays in force: {error}"));
        match &problem {
            None => tracing::info!("reloaded: {name}"),
            Some(problem) => tracing::error!("{problem}"),
        }
        self.health.secret_read(what, problem.clone());
        problem
    }
}

/// Metadata that identifies a version of a file. Follows symbolic links, because reading follows them too. A directory
/// has constant metadata: its files are listed separately.
fn file_version(file: &Path) -> Option<(SystemTime, u64, u64)> {
    let metadata = fs::metadata(file).ok()?;
    if metadata.is_dir() {
        return Some((SystemTime::UNIX_EPOCH, 0, 0));
    }
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(&metadata);
    #[cfg(not(unix))]
    let inode = 0;
    Some((metadata.modified().ok()?, metadata.len(), inode))
}

/// Polls after which a change is read even if the files still change.
const MAX_POLLS: u32 = 6;

#[cfg(test)]
mod tests;
