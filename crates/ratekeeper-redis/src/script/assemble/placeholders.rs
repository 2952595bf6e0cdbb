//! Placeholders `<<name>>`: names, formats and sizes that follow from the shape.

use super::{Scope, Source, Writer};
use crate::script::piece::Piece;

impl Writer<'_> {
    /// Replaces `<<name>>` and `$outweighs` in a line.
    pub(super) fn filled(&self, line: &str, scope: Scope) -> String {
        if !line.contains("<<") && !line.contains("$outweighs") {
            return line.to_owned();
        }
        let rules = self.rules_of(scope);
        let variable = |rule: &(usize, Piece), name: &str| self.numbered(name, Scope { rule: Some(*rule), ..scope });
        let meters: Vec<String> = rules
            .iter()
            .filter(|(_, piece)| piece.kind.is_meter())
            .flat_map(|rule| [variable(rule, "$at"), variable(rule, "$used")])
            .collect();
        let lists = rules.iter().filter(|(_, piece)| !piece.kind.is_meter());
        let lists: String =
            lists.map(|rule| format!(" .. {}", variable(rule, Source::of(rule.1.kind).packed))).collect();
        let fixed = HEADER_BYTES + 7 * meters.len();
        let formats = format!(">I6I7{}", "I7".repeat(meters.len()));
        let each = |before: &str, after: &str| -> String {
            meters.iter().map(|name| format!("{before}{name}{after}")).collect()
        };
        let source = scope.rule.map(|(_, piece)| Source::of(piece.kind));
        line.replace("<<state_names>>", &format!("found, _{}", each(", ", "")))
            .replace("<<state_formats>>", &formats)
            .replace("<<plain_formats>>", &formats)
            .replace("<<quick_formats>>", &formats)
            .replace("<<quick_names>>", &each(", ", ""))
            .replace("<<quick_unseen>>", &", 0".repeat(meters.len()))
            .replace("<<quick_size>>", &fixed.to_string())
            .replace("<<allotted_formats>>", &format!("{formats}I7I7I7I5I7I7I1"))
            .replace("<<extra_formats>>", &format!("{formats}I7I7I7"))
            .replace("<<meter_values>>", &each("", ", "))
            .replace("<<more_meter_values>>", &each(", ", ""))
            .replace("<<keys>>", &self.shape.len().to_string())
            .replace("<<lists>>", &lists)
            .replace("<<lists_at>>", &(fixed + 1).to_string())
            .replace("<<fixed>>", &fixed.to_string())
            .replace("<<smallest_list>>", &source.map_or(0, |source| source.smallest_list).to_string())
            .replace("$outweighs", source.map_or("false", |source| source.outweighs))
    }
}

/// The tag and the time of the write.
const HEADER_BYTES: usize = 13;
