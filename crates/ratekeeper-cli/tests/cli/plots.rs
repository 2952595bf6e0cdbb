//! Plots and comparisons.

use std::fs;

use crate::fixture::{Fixture, root};

fn edge() -> Fixture {
    let trace = |name: &str| fs::read(root().join("examples/traces").join(name)).unwrap();
    Fixture::new().file("rules.yaml", trace("edge.rules.yaml")).requests(trace("edge.csv"))
}

/// 240 an hour, 200 requests at 18:59 and 240 at 19:00: the fixed window admits 440 within two minutes.
#[test]
fn a_comparison_shows_the_edge_problem() {
    let run = edge().simulate(&["--compare", "--format", "table"]);
    assert_eq!(
        run.lines(),
        [
            "policy           allowed  denied  never  permits  rule  limit       fullest window",
            "fixed-window         440       0      0      440  hour  240 per 1h             440",
            "sliding-log          240     200      0      240  hour  240 per 1h             240",
            "sliding-counter      240     200      0      240  hour  240 per 1h             240",
            "token-bucket         247     193      0      247  hour  240 per 1h             247",
        ]
    );
}

#[test]
fn a_comparison_has_one_panel_per_policy() {
    let fixture = edge();
    assert_eq!(fixture.simulate(&["--compare", "--plot", "edge.svg"]).lines().len(), 0);
    let svg = fixture.read("edge.svg");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    for words in [
        "fixed-window",
        "sliding-log",
        "sliding-counter",
        "token-bucket",
        "most 440, limit 240",
        "most 240, limit 240",
        "19:00:00",
    ] {
        assert!(svg.contains(words), "{words}");
    }
}

#[test]
fn plots_are_deterministic() {
    let fixture = edge();
    fixture.simulate(&["--compare", "--plot", "one.svg"]).lines();
    fixture.simulate(&["--compare", "--plot", "two.svg"]).lines();
    assert_eq!(fixture.read("one.svg"), fixture.read("two.svg"));
}

#[test]
fn a_plot_does_not_change_the_output() {
    let fixture = edge();
    let plain = fixture.simulate(&["--policy", "token-bucket"]);
    let drawn = fixture.simulate(&["--policy", "token-bucket", "--plot", "one.svg"]);
    assert_eq!(plain.lines(), drawn.lines());
    assert!(fixture.read("one.svg").contains("193 permits refused"));
}

#[test]
fn a_file_without_requests_can_be_plotted() {
    let fixture = Fixture::with_rules(&["name: r, algorithm: gcra, limit: 1, per: 1s"]).requests("at_ms,key\n");
    fixture.simulate(&["--plot", "none.svg"]).lines();
    assert!(fixture.read("none.svg").contains("no requests"));
}

/// Names come from files, and SVG is opened in browsers.
#[test]
fn names_are_escaped_in_svg() {
    let rules = "domain: d\npolicies:\n  - name: \"</text><script>\"\n    rules:\n      - { name: \"<b>&\", algorithm: concurrency, limit: 2, lease: 1s }\n";
    let fixture = Fixture::new().file("rules.yaml", rules).requests("at_ms,key\n0,u\n500,u\n5000,u\n");
    fixture.simulate(&["--plot", "names.svg"]).lines();
    let svg = fixture.read("names.svg");
    assert!(!svg.contains("<script>") && !svg.contains("<b>"), "{svg}");
}
