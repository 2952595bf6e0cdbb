//! Rule files in process: descriptors are matched and decided as the server does, and rules are replaced at run time.
//!
//! `cargo run -p ratekeeper --features rules --example rule_file`

#![allow(clippy::print_stdout, reason = "an example prints its results")]

use ratekeeper::{Descriptor, MemoryStore, RuleAnswer, RuleLimiter, rules};

/// `rules::read_paths(["rules/"])` reads files and directories.
const RULES: &str = r#"
domain: api
policies:
  - name: free
    match: { user: "*" }
    rules:
      - { name: burst, algorithm: token_bucket, limit: 2, per: 1s }
  - name: pro
    match: { user: "*", plan: pro }
    rules:
      - { name: burst, algorithm: token_bucket, limit: 20, per: 1s }
    overrides:
      - key: "7"
        rules: [{ name: burst, algorithm: token_bucket, limit: 500, per: 1s }]
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let read = |text: &str| rules::read_str("rules.yaml", text, rules::Format::Yaml);
    let limiter = RuleLimiter::new(&[read(RULES)?], MemoryStore::new())?;

    for (user, plan) in [("1", "free"), ("2", "pro"), ("7", "pro")] {
        let descriptor = Descriptor::new("api").entry("user", user).entry("plan", plan);
        match limiter.check_now(descriptor)? {
            RuleAnswer::Decided { policy, decision, .. } => println!("user {user}: {}, {decision}", policy.name()),
            other => println!("user {user}: {other:?}"),
        }
    }

    // Everything beyond a check is asked of the limiter that matches.
    if let Some(matched) = limiter.find(("api", [("user", "2"), ("plan", "pro")]))? {
        println!("user 2, a batch: {}", matched.limiter.check_now((&matched.key, 15))?);
    }

    // New rules: unchanged policies keep their counts.
    limiter.replace(&[read(&RULES.replace("limit: 2,", "limit: 3,"))?])?;
    if let Some(decision) = limiter.check_now(("api", [("user", "1")]))?.decision() {
        println!("user 1 after the change: {decision}");
    }
    Ok(())
}
