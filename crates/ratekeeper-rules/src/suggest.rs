//! Suggestions for misspelt words: "did you mean …?".

/// The known word with the smallest edit distance, if at most a third of its letters differ. A transposition of
/// adjacent letters counts as one edit (optimal string alignment).
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // The distance takes quadratic time, and no known word is that long.
    if word.len() > LONGEST_WORD {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

const LONGEST_WORD: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: [&str; 5] = ["limit", "per", "burst", "buckets", "on_store_failure"];

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        assert_eq!(nearest("brust", FIELDS), Some("burst"));
        assert_eq!(nearest("limt", FIELDS), Some("limit"));
        assert_eq!(nearest("bucket", FIELDS), Some("buckets"));
        assert_eq!(nearest("On-Store-Failure", FIELDS), Some("on_store_failure"));
    }

    #[test]
    fn another_word_is_left_alone() {
        assert_eq!(nearest("colour", FIELDS), None);
        assert_eq!(nearest("", FIELDS), None);
        assert_eq!(nearest(&"x".repeat(1_000), FIELDS), None);
    }
}
