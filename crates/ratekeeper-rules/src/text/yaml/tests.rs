use super::*;

fn tree(text: &str) -> TreeNode {
    read(text).unwrap().unwrap()
}

/// Line and message of the error in a text.
fn problem_in(text: &str) -> (usize, String) {
    let problem = read(text).unwrap_err();
    (problem.location.line, problem.message)
}

#[test]
fn values_have_locations() {
    let tree = tree("domain: api\npolicies:\n  - name: one\n    rules: [{ limit: 7 }]\n");
    let policy = &tree.get("policies").unwrap().items()[0];
    assert_eq!(policy.location, Location { line: 3, column: 5 });
    let limit = policy.get("rules").unwrap().items()[0].get("limit").unwrap();
    assert_eq!(limit.location, Location { line: 4, column: 22 });
}

#[test]
fn quoted_scalars_are_text() {
    let tree = tree("a: \"1\"\nb: 1\nc: !!str 1\nd: |\n  1\n");
    assert_eq!(tree.get("a").unwrap().describe(), "\"1\", which is text");
    assert_eq!(tree.get("b").unwrap().describe(), "1, a number");
    assert_eq!(tree.get("c").unwrap().describe(), "\"1\", which is text");
    assert_eq!(tree.get("d").unwrap().describe(), "\"1\\n\", which is text");
}

#[test]
fn aliases_and_merges_are_expanded() {
    let tree = tree("base: &b { per: 1s, limit: 5 }\nrule: { <<: *b, limit: 7 }\nsame: *b\n");
    let rule = tree.get("rule").unwrap();
    assert_eq!(rule.get("limit").unwrap().quoted(), "7");
    assert_eq!(rule.get("per").unwrap().quoted(), "\"1s\"");
    assert!(rule.get("<<").is_none());
    assert_eq!(tree.get("same").unwrap().get("limit").unwrap().quoted(), "5");
}

#[test]
fn the_first_of_several_merged_mappings_wins() {
    let tree = tree("a: &a { x: 1 }\nb: &b { x: 2, y: 2 }\nc: { <<: [*a, *b] }\n");
    let merged = tree.get("c").unwrap();
    assert_eq!((merged.get("x").unwrap().quoted(), merged.get("y").unwrap().quoted()), ("1".into(), "2".into()));
    assert!(problem_in("a: { <<: 5 }").1.contains("merges mappings"));
}

#[test]
fn a_recursive_alias_is_refused() {
    assert!(problem_in("a: &a\n  - *a\n").1.contains("refers to a value that contains it"));
    assert!(problem_in("a: *unknown\n").1.contains("not valid YAML"));
}

#[test]
fn aliases_count_as_their_expansion() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        text.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    let (line, message) = problem_in(&text);
    assert!(message.contains("more than 1000000 values"), "{message}");
    assert_eq!(line, 6);
}

/// A few aliases of a long scalar expand to more text than memory can hold.
#[test]
fn long_scalars_count_as_several_values() {
    let aliases = |count: usize| format!("x: &a {}\ny: [{}]\n", "k".repeat(1 << 20), vec!["*a"; count].join(","));
    assert!(read(&aliases(10)).is_ok());
    let (line, message) = problem_in(&aliases(100));
    assert!(line == 2 && message.contains("1000000"), "{line}: {message}");
}

#[test]
fn depth_is_bounded_with_and_without_aliases() {
    assert!(problem_in(&"[".repeat(10_000)).1.contains("levels deep"));
    assert!(problem_in(&"- ".repeat(10_000)).1.contains("levels deep"));
    let nested = format!("{}{}", "[".repeat(40), "]".repeat(40));
    let text = format!("a: &a {nested}\nb: {}*a{}\n", "[".repeat(40), "]".repeat(40));
    assert!(problem_in(&text).1.contains("levels deep"));
}

#[test]
fn unusual_documents_are_refused_with_a_reason() {
    assert_eq!(
        problem_in("a: 1\n---\nb: 2\n"),
        (2, "a second document begins here; put it into a separate file".into())
    );
    assert_eq!(problem_in("a: 1\nb: 2\na: 3\n").0, 3);
    assert_eq!(problem_in("a:\n\tb: 1\n"), (2, "a tab indents this line; YAML accepts spaces only".into()));
    assert!(problem_in("a: !secret x\n").1.contains("!secret"));
    assert!(problem_in("? [a]\n: 1\n").1.contains("field's name"));
    assert!(read("# only a comment\n").unwrap().is_none());
    assert!(read("---\n...\n").unwrap().is_none());
}
