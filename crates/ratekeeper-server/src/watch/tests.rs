use std::sync::Arc;

use ratekeeper_testkit::servers::wait_until;

use super::*;
use crate::{
    shutdown::{self, Stopper},
    telemetry::Telemetry,
    wiring::open_store,
};

const RULES: &str = "domain: api\npolicies:\n  - name: per-key\n    match: { key: \"*\" }\n    rules: [{ name: n, algorithm: token_bucket, limit: 3, per: 1h }]\n";

/// A directory with a rule file, and an engine that has loaded it.
struct Fixture {
    folder: tempfile::TempDir,
    files: Files,
    engine: Engine,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("rules.yaml"), RULES).unwrap();
        let files = Files {
            rules: vec![folder.path().to_owned()],
            tokens: None,
            admin_token: None,
            auth_secret: None,
            tls: None,
        };
        let store = open_store("memory", &Default::default()).await.unwrap();
        let engine = Engine::new(store, Arc::new(Telemetry::default()));
        engine.load(read_paths(&files.rules)).unwrap();
        Self { folder, files, engine }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn watch(&self, before: FileSnapshot) -> (Stopper, Reload) {
        let watcher = FileWatcher {
            files: self.files.clone(),
            engine: self.engine.clone(),
            health: Health::new(self.engine.clone()),
            access: Access::open(),
            admin_token: RequiredSecret::default(),
            auth_secret: RequiredSecret::default(),
            tls: Vec::new(),
        };
        let (stopper, shutdown) = shutdown::channel();
        (stopper, watcher.start(before, Duration::from_millis(10), shutdown))
    }
}

/// Opening the store may take long. An edit in that time must not stay unnoticed until the next edit.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_during_startup_is_detected() {
    let fixture = Fixture::new().await;
    let before = fixture.files.snapshot();
    fixture.write("rules.yaml", &RULES.replace("limit: 3", "limit: 30"));
    let _watch = fixture.watch(before);
    wait_until("the edit", Duration::from_secs(20), || fixture.engine.rules_status().generation == 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_keeps_changing_is_read() {
    let fixture = Fixture::new().await;
    let _watch = fixture.watch(fixture.files.snapshot());
    let mut edits = 0;
    wait_until("one of the edits", Duration::from_secs(20), || {
        edits += 1;
        fixture.write("rules.yaml", &format!("{RULES}# {}\n", "x".repeat(edits)));
        fixture.engine.rules_status().generation > 1
    });
}

#[tokio::test]
async fn other_files_are_ignored() {
    let fixture = Fixture::new().await;
    let before = fixture.files.snapshot();
    fixture.write("app.log", "a line");
    assert_eq!(fixture.files.snapshot(), before);
    fixture.write("more.yaml", "domain: other\n");
    assert_ne!(fixture.files.snapshot(), before);
}
