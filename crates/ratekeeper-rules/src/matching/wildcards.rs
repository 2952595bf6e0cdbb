//! Index of the wildcard patterns of one level: finds the first pattern of the file that matches a value.
//!
//! Values come from clients and may be as long as a message, and a file may have thousands of patterns, so trying one
//! pattern after the other would cost patterns × length. Three steps avoid that:
//!
//! 1. Patterns are indexed by their literal prefix. Patterns with another prefix are never looked at.
//! 2. The suffix is compared with the end of the value, at a cost that does not depend on the value's length.
//! 3. If more than [`FEW`] patterns remain that have texts between their stars, one pass of an Aho-Corasick automaton
//!    over the value finds the occurrences of all these texts. Each pattern advances when the text it waits for occurs.
//!
//! Bound: O(log patterns + candidates + value length), times the number of inner texts that end at one position (more
//! than one only if a text is a suffix of another). A value of any length is matched in full.

use aho_corasick::AhoCorasick;
use smallvec::SmallVec;

use crate::Wildcard;

/// Patterns, each with an item.
#[derive(Debug)]
pub(super) struct Wildcards<T> {
    /// In the order of the file.
    patterns: Vec<(Wildcard, T)>,
    /// Sorted by prefix.
    prefixes: Vec<Prefix>,
    /// `None` if no pattern has an inner text.
    search: Option<InnerSearch>,
}

/// The patterns that share a literal prefix.
#[derive(Debug)]
struct Prefix {
    text: Box<str>,
    /// The longest other prefix that this one begins with.
    parent: Option<usize>,
    /// Positions in the file's order, ascending.
    patterns: Vec<usize>,
}

/// All inner texts of all patterns.
#[derive(Debug)]
struct InnerSearch {
    automaton: AhoCorasick,
    /// For each pattern the numbers of its inner texts in the automaton.
    texts: Vec<Box<[usize]>>,
    count: usize,
}

impl<T> Wildcards<T> {
    /// Indexes the patterns of one level, given in the order of the file.
    pub(super) fn new(patterns: Vec<(Wildcard, T)>) -> Self {
        let prefixes = index_prefixes(&patterns);
        let search = InnerSearch::new(patterns.iter().map(|(wildcard, _)| wildcard));
        Self { patterns, prefixes, search }
    }

    /// The item of the first pattern that matches.
    pub(super) fn find(&self, value: &str) -> Option<&T> {
        let mut unsure: SmallVec<[usize; 8]> = SmallVec::new();
        let mut sure = None;
        for candidate in self.candidates(value) {
            let wildcard = &self.patterns[candidate].0;
            if wildcard.inner().is_empty() {
                if wildcard.matches(value) {
                    sure = Some(candidate);
                    break;
                }
            } else if value[wildcard.prefix().len()..].ends_with(wildcard.suffix()) {
                unsure.push(candidate);
            }
        }
        // Candidates that precede it in the file take precedence if they match.
        let earlier = match &self.search {
            Some(search) if unsure.len() > FEW => search.first_match(&unsure, &self.patterns, value),
            _ => unsure.into_iter().find(|candidate| self.patterns[*candidate].0.matches(value)),
        };
        earlier.or(sure).map(|found| &self.patterns[found].1)
    }

    /// The patterns whose prefix the value begins with, in the order of the file.
    ///
    /// Let `p` be the last prefix that is not greater than the value. Every prefix of the value sorts at or before `p`.
    /// Since `p` is between it and the value, `p` begins with it. So all of them are `p` or on its chain of parents.
    fn candidates(&self, value: &str) -> SmallVec<[usize; 8]> {
        let mut found = SmallVec::new();
        let mut next = self.prefixes.partition_point(|prefix| *prefix.text <= *value).checked_sub(1);
        let mut lists = 0;
        while let Some(index) = next {
            let prefix = &self.prefixes[index];
            if value.starts_with(&*prefix.text) {
                found.extend_from_slice(&prefix.patterns);
                lists += 1;
            }
            next = prefix.parent;
        }
        if lists > 1 {
            found.sort_unstable();
        }
        found
    }
}

impl<T> Default for Wildcards<T> {
    fn default() -> Self {
        Self { patterns: Vec::new(), prefixes: Vec::new(), search: None }
    }
}

fn index_prefixes<T>(patterns: &[(Wildcard, T)]) -> Vec<Prefix> {
    let mut order: Vec<usize> = (0..patterns.len()).collect();
    order.sort_by_key(|position| patterns[*position].0.prefix());
    let mut prefixes: Vec<Prefix> = Vec::new();
    for position in order {
        let text = patterns[position].0.prefix();
        if let Some(last) = prefixes.last_mut().filter(|last| *last.text == *text) {
            last.patterns.push(position);
            continue;
        }
        let mut parent = prefixes.len().checked_sub(1);
        while let Some(index) = parent.filter(|index| !text.starts_with(&*prefixes[*index].text)) {
            parent = prefixes[index].parent;
        }
        prefixes.push(Prefix { text: text.into(), parent, patterns: vec![position] });
    }
    prefixes
}

impl InnerSearch {
    /// `None` if no pattern has an inner text, or together they are too large for an automaton (beyond 2^31 states).
    fn new<'a>(patterns: impl Iterator<Item = &'a Wildcard>) -> Option<Self> {
        let mut numbers = std::collections::HashMap::new();
        let mut distinct: Vec<&str> = Vec::new();
        let texts: Vec<Box<[usize]>> = patterns
            .map(|wildcard| {
                let numbered = wildcard.inner().iter().map(|text| {
                    *numbers.entry(&**text).or_insert_with(|| {
                        distinct.push(text);
                        distinct.len() - 1
                    })
                });
                numbered.collect()
            })
            .collect();
        if distinct.is_empty() {
            return None;
        }
        let automaton = AhoCorasick::new(&distinct).ok()?;
        Some(Self { automaton, texts, count: distinct.len() })
    }

    /// The first of these patterns that matches, in one pass over the value. Their prefixes and suffixes match already.
    fn first_match<T>(&self, candidates: &[usize], patterns: &[(Wildcard, T)], value: &str) -> Option<usize> {
        // A candidate waits for one text at a time: `waiting[text]` is the head of the list of candidates that wait
        // for it, linked by `next`.
        let mut waiting = vec![END; self.count];
        let mut progress: Vec<Progress> = Vec::with_capacity(candidates.len());
        for (index, candidate) in candidates.iter().enumerate() {
            let first = self.texts[*candidate][0];
            let from = patterns[*candidate].0.prefix().len();
            progress.push(Progress { done: 0, from, next: std::mem::replace(&mut waiting[first], index) });
        }
        let mut best: Option<usize> = None;
        for found in self.automaton.find_overlapping_iter(value) {
            let text = found.pattern().as_usize();
            let mut index = std::mem::replace(&mut waiting[text], END);
            while index != END {
                let Progress { done, from, next } = progress[index];
                let candidate = candidates[index];
                let wildcard = &patterns[candidate].0;
                let texts = &self.texts[candidate];
                if found.start() < from {
                    progress[index].next = std::mem::replace(&mut waiting[text], index);
                } else if done + 1 < texts.len() {
                    let after = texts[done + 1];
                    let next = std::mem::replace(&mut waiting[after], index);
                    progress[index] = Progress { done: done + 1, from: found.end(), next };
                } else if found.end() + wildcard.suffix().len() <= value.len() {
                    best = Some(best.map_or(candidate, |best| best.min(candidate)));
                    if best == candidates.first().copied() {
                        return best;
                    }
                }
                index = next;
            }
        }
        best
    }
}

/// Search state of one pattern.
#[derive(Clone, Copy)]
struct Progress {
    /// Inner texts found so far.
    done: usize,
    /// The smallest offset at which the next one may begin.
    from: usize,
    /// The next pattern that waits for the same text.
    next: usize,
}

/// The end of a linked list.
const END: usize = usize::MAX;

/// Up to this many patterns are tried in sequence, without allocation.
const FEW: usize = 4;

#[cfg(test)]
mod tests;
