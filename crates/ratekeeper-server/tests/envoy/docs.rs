//! The curl example of `docs/rls.md`, through Envoy.

use crate::edge::Edge;

const PAGE: &str = include_str!("../../../../docs/rls.md");

#[test]
fn curl_through_envoy_gets_what_the_page_shows() {
    let (_, block) = PAGE.split_once("```console\n$ curl -i ").expect("a call with curl");
    let (call, rest) = block.split_once('\n').unwrap();
    let (expected, _) = rest.split_once("\n```").unwrap();
    let headers: Vec<(&str, &str)> =
        call.split('\'').skip(1).step_by(2).map(|field| field.split_once(": ").unwrap()).collect();
    let path = call.rsplit("localhost:10000").next().unwrap();
    let reply = Edge::start().get(path, &headers);

    let mut lines = expected.lines();
    assert_eq!(lines.next(), Some(format!("HTTP/1.1 {} OK", reply.status).as_str()));
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        // Test rules use windows of a year, so that none ends during a test.
        let value = value.replace("\"minute\"", "\"year\"").replace("w=60", "w=31536000");
        let found = reply.header(name).unwrap_or_else(|| panic!("no {name} in {reply:?}"));
        match value.strip_suffix('…') {
            Some(beginning) => assert!(found.starts_with(beginning), "{name}: {found}"),
            None => assert_eq!(found, value, "{name}"),
        }
    }
}
