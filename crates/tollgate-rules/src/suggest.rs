//! "Did you mean …?": the known word nearest to one that is not known.

/// The nearest of the known words, if any is near enough to be meant.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // Long words are no typing mistake, and comparing them takes time.
    if word.len() > LONGEST_WORD {
        return None;
    }
    let word = word.to_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|candidate| (distance(&word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// How many letters must be changed, added, dropped or swapped with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut two_back: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for i in 0..from.len() {
        let mut row = vec![i + 1];
        for j in 0..to.len() {
            let replaced = last[j] + usize::from(from[i] != to[j]);
            let mut best = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && from[i] == to[j - 1] && from[i - 1] == to[j] {
                best = best.min(two_back[j - 1] + 1);
            }
            row.push(best);
        }
        two_back = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
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
