use std::sync::Arc;

use tollgate_testkit::servers::wait_until;

use super::*;
use crate::{
    shutdown::{self, Stopper},
    telemetry::Telemetry,
    wiring::Storage,
};

const RULES: &str = "domain: api\npolicies:\n  - name: per-key\n    match: { key: \"*\" }\n    rules: [{ name: n, algorithm: token_bucket, limit: 3, per: 1h }]\n";

/// A folder with a rule file, and an engine that has read it.
struct Home {
    folder: tempfile::TempDir,
    files: Files,
    engine: Engine,
}

impl Home {
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
        let store = Storage::open("memory", &Default::default()).await.unwrap();
        let engine = Engine::new(store, Arc::new(Telemetry::default()));
        engine.load(read_paths(&files.rules)).unwrap();
        Self { folder, files, engine }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn watch(&self, before: Look) -> (Stopper, Reload) {
        let watched = Watched {
            files: self.files.clone(),
            engine: self.engine.clone(),
            health: Health::new(self.engine.clone()),
            access: Access::open(),
            admin_token: RequiredSecret::default(),
            auth_secret: RequiredSecret::default(),
            tls: Vec::new(),
        };
        let (stopper, shutdown) = shutdown::channel();
        (stopper, watched.start(before, Duration::from_millis(10), shutdown))
    }
}

/// A store may take its time to open; what is edited meanwhile would wait for the next edit.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_while_the_server_starts_is_noticed() {
    let home = Home::new().await;
    let before = home.files.look();
    home.write("rules.yaml", &RULES.replace("limit: 3", "limit: 30"));
    let _watch = home.watch(before);
    wait_until("the edit", Duration::from_secs(20), || home.engine.rules_status().generation == 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_never_rests_is_read_all_the_same() {
    let home = Home::new().await;
    let _watch = home.watch(home.files.look());
    let mut edits = 0;
    wait_until("one of the edits", Duration::from_secs(20), || {
        edits += 1;
        home.write("rules.yaml", &format!("{RULES}# {}\n", "x".repeat(edits)));
        home.engine.rules_status().generation > 1
    });
}

#[tokio::test]
async fn what_is_no_rule_file_is_not_looked_at() {
    let home = Home::new().await;
    let before = home.files.look();
    home.write("app.log", "a line");
    assert_eq!(home.files.look(), before);
    home.write("more.yaml", "domain: other\n");
    assert_ne!(home.files.look(), before);
}
