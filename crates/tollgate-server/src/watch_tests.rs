use std::sync::Arc;

use tollgate_testkit::servers::wait_until;

use super::*;
use crate::{shutdown, telemetry::Telemetry, wiring::Storage};

const RULES: &str = "domain: api\npolicies:\n  - name: per-key\n    match: { key: \"*\" }\n    rules: [{ name: n, algorithm: token_bucket, limit: 3, per: 1h }]\n";

/// A store may take its time to open; what is edited meanwhile would wait for the next edit.
#[tokio::test(flavor = "multi_thread")]
async fn an_edit_while_the_server_starts_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yaml");
    fs::write(&file, RULES).unwrap();
    let files = Files { rules: vec![file.clone()], tokens: None, admin_token: None, tls: None };
    let before = files.look();
    let store = Storage::open("memory", &Default::default()).await.unwrap();
    let engine = Engine::new(store, Arc::new(Telemetry::default()));
    engine.load(read_paths(&files.rules)).unwrap();
    fs::write(&file, RULES.replace("limit: 3", "limit: 30")).unwrap();

    let watched = Watched {
        files,
        engine: engine.clone(),
        health: Health::new(engine.clone()),
        access: Access::open(),
        admin_token: AdminToken::default(),
        tls: Vec::new(),
    };
    let (_stopper, shutdown) = shutdown::channel();
    let _reload = watched.start(before, Duration::from_millis(10), shutdown);
    let read_again = || engine.rules_status().generation == 2;
    wait_until("the edit", Duration::from_secs(20), read_again);
}
