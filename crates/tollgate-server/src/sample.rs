//! Rules to begin with: what `tollgate serve` enforces when it is given no file.

use tollgate_rules::{Format, Problems, RuleFile, read_str};

/// The sample, as text; it is also `rules/sample.yaml`.
pub const SAMPLE_RULES: &str = include_str!("../../../rules/sample.yaml");

/// The sample, read.
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
