//! Content negotiation of `/metrics`: OpenMetrics, or the classic Prometheus text format.
//!
//! Prometheus requests OpenMetrics and accepts both. Other clients, such as `curl`, receive the classic format, in
//! which a counter has the name of its samples (`…_total`), and which has no `UNIT` lines and no `# EOF`.

/// The content type of OpenMetrics.
pub(crate) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The content type of the classic text format.
pub(crate) const CLASSIC: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Whether an `Accept` field names OpenMetrics with a quality above 0 and not below that of `text/plain`. Wildcards do
/// not count.
pub(crate) fn wants_openmetrics(accept: &str) -> bool {
    let quality = |wanted: &[&str]| {
        let of = |range: &str| {
            let mut words = range.split(';').map(str::trim);
            let named = words.next().is_some_and(|kind| wanted.iter().any(|wanted| kind.eq_ignore_ascii_case(wanted)));
            let quality = words.find_map(|word| word.strip_prefix("q=")?.parse::<f32>().ok());
            named.then_some(quality.unwrap_or(1.0))
        };
        accept.split(',').filter_map(of).fold(0.0, f32::max)
    };
    let openmetrics = quality(&["application/openmetrics-text"]);
    openmetrics > 0.0 && openmetrics >= quality(&["text/plain"])
}

/// Converts OpenMetrics text to the classic format.
pub(crate) fn classic(openmetrics: &str) -> String {
    let mut text = String::with_capacity(openmetrics.len() + openmetrics.len() / 16);
    let mut lines = openmetrics.lines().peekable();
    while let Some(line) = lines.next() {
        let line = match line.strip_prefix("# ") {
            None => line.to_owned(),
            Some("EOF") => continue,
            Some(comment) if comment.starts_with("UNIT ") => continue,
            // `HELP` precedes `TYPE`, and both must have the same name.
            Some(comment) => match comment.strip_prefix("HELP ").and_then(|help| help.split_once(' ')) {
                Some((name, help)) if lines.peek().is_some_and(|next| is_counter(next, name)) => {
                    format!("# HELP {name}_total {help}")
                }
                _ => match comment.strip_prefix("TYPE ").and_then(|kind| kind.strip_suffix(" counter")) {
                    Some(name) => format!("# TYPE {name}_total counter"),
                    None => line.to_owned(),
                },
            },
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn is_counter(line: &str, name: &str) -> bool {
    line.strip_prefix("# TYPE ").and_then(|kind| kind.strip_suffix(" counter")) == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn openmetrics_is_for_those_who_ask_for_it() {
        // The first two are those of Prometheus 2 and 3.
        for wants in [
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;q=0.4,*/*;q=0.2",
            "Application/OpenMetrics-Text",
        ] {
            assert!(wants_openmetrics(wants), "{wants}");
        }
        for other in [
            "",
            "*/*",
            "text/plain",
            "text/plain;version=0.0.4;q=0.8, application/openmetrics-text;q=0.2",
            "application/openmetrics-text;q=0",
            "text/html,application/xhtml+xml,*/*;q=0.8",
        ] {
            assert!(!wants_openmetrics(other), "{other}");
        }
    }

    #[test]
    fn the_older_format_names_counters_as_their_samples_are_named() {
        let openmetrics = "# HELP a_keys Keys.\n# TYPE a_keys gauge\na_keys 1\n\
                           # HELP a_asked Asked.\n# TYPE a_asked counter\n# UNIT a_asked times\na_asked_total{b=\"# EOF\"} 2\n# EOF\n";
        let expected = "# HELP a_keys Keys.\n# TYPE a_keys gauge\na_keys 1\n\
                        # HELP a_asked_total Asked.\n# TYPE a_asked_total counter\na_asked_total{b=\"# EOF\"} 2\n";
        assert_eq!(classic(openmetrics), expected);
    }
}
