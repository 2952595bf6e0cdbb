//! Domains with `match: all` over Envoy's protocol: the status of a descriptor combines the policies that count it.

use crate::helpers::{Server, ask, ask_one, descriptor, is_ok, passes, remaining, request};

const RULES: &str = r#"
domain: api
match: all
policies:
  - { name: per-ip, match: { ip: "*" }, rules: [{ name: ip, algorithm: fixed_window, limit: 2, per: 365d }] }
  - { name: per-user, match: { user: "*" }, rules: [{ name: user, algorithm: fixed_window, limit: 5, per: 365d }] }
"#;

#[tokio::test]
async fn a_descriptor_has_the_status_of_all_its_policies() {
    let server = Server::start(RULES).await;
    let mut client = server.client().await;
    let login = [("ip", "1"), ("user", "a")];
    let response = ask_one(&mut client, &login).await;
    assert_eq!((response.statuses.len(), remaining(&response)), (1, vec![1]), "the least of both");
    assert_eq!(response.statuses[0].current_limit.as_ref().unwrap().name, "ip");
    // A second descriptor keeps its position.
    let two = ask(&mut client, request("api", vec![descriptor(&login), descriptor(&[("user", "b")])])).await.unwrap();
    assert_eq!((passes(&two), remaining(&two)), (true, vec![0, 4]));
    let denied =
        ask(&mut client, request("api", vec![descriptor(&[("user", "b")]), descriptor(&login)])).await.unwrap();
    assert!(!passes(&denied));
    assert!(is_ok(&denied.statuses[0]) && !is_ok(&denied.statuses[1]));
    assert_eq!(remaining(&ask_one(&mut client, &[("user", "b")]).await), [3], "the denied request was not charged");
}
