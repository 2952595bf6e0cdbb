//! Plots and comparisons.

use std::fs;

use crate::desk::{Desk, root};

fn edge() -> Desk {
    let trace = |name: &str| fs::read(root().join("examples/traces").join(name)).unwrap();
    Desk::new().file("rules.yaml", trace("edge.rules.yaml")).requests(trace("edge.csv"))
}

/// 240 an hour, 200 requests at 18:59 and 240 at 19:00: the fixed window lets 440 through within two minutes.
#[test]
fn the_edge_problem_is_shown_next_to_the_sliding_forms() {
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
fn a_comparison_is_drawn_panel_by_panel() {
    let desk = edge();
    assert_eq!(desk.simulate(&["--compare", "--plot", "edge.svg"]).lines().len(), 0);
    let picture = desk.read("edge.svg");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    for words in [
        "fixed-window",
        "sliding-log",
        "sliding-counter",
        "token-bucket",
        "most 440, limit 240",
        "most 240, limit 240",
        "19:00:00",
    ] {
        assert!(picture.contains(words), "{words}");
    }
}

#[test]
fn the_same_run_draws_the_same_picture() {
    let desk = edge();
    desk.simulate(&["--compare", "--plot", "one.svg"]).lines();
    desk.simulate(&["--compare", "--plot", "two.svg"]).lines();
    assert_eq!(desk.read("one.svg"), desk.read("two.svg"));
}

#[test]
fn a_plot_leaves_the_answers_as_they_are() {
    let desk = edge();
    let plain = desk.simulate(&["--policy", "token-bucket"]);
    let drawn = desk.simulate(&["--policy", "token-bucket", "--plot", "one.svg"]);
    assert_eq!(plain.lines(), drawn.lines());
    assert!(desk.read("one.svg").contains("193 permits refused"));
}

#[test]
fn a_file_without_requests_can_be_drawn() {
    let desk = Desk::with_rules(&["name: r, algorithm: gcra, limit: 1, per: 1s"]).requests("at_ms,key\n");
    desk.simulate(&["--plot", "none.svg"]).lines();
    assert!(desk.read("none.svg").contains("no requests"));
}

/// Names come from files, and a picture is opened in browsers.
#[test]
fn names_cannot_break_the_picture() {
    let rules = "domain: d\npolicies:\n  - name: \"</text><script>\"\n    rules:\n      - { name: \"<b>&\", algorithm: concurrency, limit: 2, lease: 1s }\n";
    let desk = Desk::new().file("rules.yaml", rules).requests("at_ms,key\n0,u\n500,u\n5000,u\n");
    desk.simulate(&["--plot", "names.svg"]).lines();
    let picture = desk.read("names.svg");
    assert!(!picture.contains("<script>") && !picture.contains("<b>"), "{picture}");
}
