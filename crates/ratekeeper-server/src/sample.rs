//! Built-in sample rules, which `ratekeeper serve` enforces if no rule file is given.

use ratekeeper_rules::{Format, Problems, RuleFile, read_str};

/// The text of `sample.yaml` next to this file; `rules/sample.yaml` is a link to it.
pub const SAMPLE_RULES: &str = include_str!("sample.yaml");

/// The sample rules, parsed.
pub fn sample_rules() -> Result<Vec<RuleFile>, Problems> {
    read_str("the sample rules", SAMPLE_RULES, Format::Yaml).map(|file| vec![file])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_has_no_mistakes() {
        let files = sample_rules().unwrap_or_default();
        assert_eq!(files[0].domain, "api");
    }
}
