//! Committed scripts in `lua/assembled`, as Redis runs them.
//!
//! One file per script and shape that is common: each algorithm alone, three rules together, a rule that counts refused
//! requests, a shadow rule, two keys. `RATEKEEPER_RENEW=1 cargo test -p ratekeeper-redis assembled` writes them.

use std::{collections::BTreeSet, fs, path::PathBuf};

use super::{
    assemble::assemble,
    piece::{Kind, Piece},
    shape::Shape,
    source::{ALLOT, AMEND, CHARGE, MERGE, TAKE},
};

/// A file: its name, the template, what it is for, and the rules of each key.
struct Assembled {
    name: String,
    template: &'static str,
    text: &'static str,
    purpose: String,
    shape: Shape,
}

const ALGORITHMS: [(&str, &str, Kind); 9] = [
    ("token_bucket", "a token bucket", Kind::Bucket),
    ("leaky_bucket_shaped", "a shaped leaky bucket", Kind::Shaped),
    ("token_bucket_rounded", "a token bucket with a rounded rate", Kind::Rounded),
    ("token_bucket_stepwise", "a token bucket that refills stepwise", Kind::Stepwise),
    ("fixed_window", "a fixed window", Kind::Window),
    ("calendar_window", "a window of the calendar", Kind::Calendar),
    ("sliding_log", "a sliding log", Kind::Log),
    ("sliding_counter", "a sliding counter", Kind::Counter),
    ("concurrency", "a concurrency rule", Kind::Leases),
];

fn plain(kind: Kind) -> Piece {
    Piece { kind, shadow: false, counts_refused: false, prepaid: false }
}

fn all() -> Vec<Assembled> {
    let file = |template, text, name: &str, purpose: &str, shape: Shape| Assembled {
        name: format!("{template}_{name}.lua"),
        template,
        text,
        purpose: purpose.to_owned(),
        shape,
    };
    let three = || vec![vec![plain(Kind::Bucket), plain(Kind::Window), plain(Kind::Log)]];
    let mut files = Vec::new();
    for (name, purpose, kind) in ALGORITHMS {
        files.push(file("take", TAKE, name, purpose, vec![vec![plain(kind)]]));
    }
    let counting = Piece { counts_refused: true, ..plain(Kind::Bucket) };
    let shadow = Piece { shadow: true, ..plain(Kind::Window) };
    let bucket = || vec![plain(Kind::Bucket)];
    files.extend([
        file("take", TAKE, "three_rules", "a token bucket, a fixed window and a sliding log", three()),
        file("take", TAKE, "count_refused", "a token bucket that counts refused requests", vec![vec![counting]]),
        file(
            "take",
            TAKE,
            "shadow",
            "a token bucket and a fixed window in shadow",
            vec![vec![plain(Kind::Bucket), shadow]],
        ),
        file("take", TAKE, "two_keys", "a token bucket on each of two keys", vec![bucket(), bucket()]),
    ]);
    files.extend([
        file("merge", MERGE, "token_bucket", "a token bucket", vec![bucket()]),
        file(
            "merge",
            MERGE,
            "two_rules",
            "a token bucket and a fixed window in shadow",
            vec![vec![plain(Kind::Bucket), shadow]],
        ),
    ]);
    let prepaid = |kind| Piece { prepaid: true, ..plain(kind) };
    files.extend([
        file("merge", MERGE, "sliding_log", "a sliding log", vec![vec![plain(Kind::Log)]]),
        file("allot", ALLOT, "token_bucket", "a token bucket", vec![vec![prepaid(Kind::Bucket)]]),
        file(
            "allot",
            ALLOT,
            "two_rules",
            "a fixed window and a sliding log",
            vec![vec![prepaid(Kind::Window), prepaid(Kind::Log)]],
        ),
        file("take", TAKE, "prepaid", "a token bucket that may have allotments", vec![vec![prepaid(Kind::Bucket)]]),
    ]);
    for (template, text) in [("amend", AMEND), ("charge", CHARGE)] {
        files.extend([
            file(template, text, "token_bucket", "a token bucket", vec![bucket()]),
            file(template, text, "concurrency", "a concurrency rule", vec![vec![plain(Kind::Leases)]]),
            file(template, text, "three_rules", "a token bucket, a fixed window and a sliding log", three()),
        ]);
    }
    files
}

impl Assembled {
    fn contents(&self) -> String {
        let kinds: BTreeSet<&str> = self.shape.iter().flatten().map(|piece| algorithm_file(piece.kind)).collect();
        let algorithms: Vec<String> = kinds.into_iter().map(|file| format!("lua/{file}.lua")).collect();
        format!(
            "-- Assembled from lua/{}.lua and {}, with the files they include: {}.\n\
             -- Redis runs what follows this header, without the indentation. Generated: edit the sources, see CONTRIBUTING.md.\n{}",
            self.template,
            algorithms.join(", "),
            self.purpose,
            indented(&assemble(self.text, &self.shape))
        )
    }
}

/// The script with its blocks indented. Every block of the sources begins and ends on separate lines.
fn indented(script: &str) -> String {
    let mut out = String::new();
    let mut depth = 0_usize;
    for line in script.lines() {
        let first = line.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let opens = ["then", "do", "else"].iter().any(|word| line == *word || line.ends_with(&format!(" {word}")));
        let opens = opens || (line.contains("function") && line.ends_with(')'));
        if matches!(first, "end" | "else" | "elseif") {
            depth = depth.saturating_sub(1);
        }
        out.push_str(&"  ".repeat(depth));
        out.push_str(line);
        out.push('\n');
        depth += usize::from(opens);
    }
    assert_eq!(depth, 0, "every block is closed:\n{out}");
    out
}

fn algorithm_file(kind: Kind) -> &'static str {
    match kind {
        Kind::Bucket | Kind::Shaped => "bucket",
        Kind::Rounded | Kind::RoundedShaped => "rounded",
        Kind::Stepwise => "stepwise",
        Kind::Window => "window",
        Kind::Calendar => "calendar",
        Kind::Local => "local",
        Kind::Log => "log",
        Kind::Counter => "counter",
        Kind::Leases => "leases",
        Kind::AutoBlock => "auto_block",
    }
}

/// The committed files are what the assembler writes, and there are no others.
#[test]
fn assembled_scripts_are_current() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("lua/assembled");
    let files = all();
    if std::env::var_os("RATEKEEPER_RENEW").is_some() {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        for file in &files {
            fs::write(folder.join(&file.name), file.contents()).unwrap();
        }
    }
    let advice = "RATEKEEPER_RENEW=1 cargo test -p ratekeeper-redis assembled writes them anew";
    for file in &files {
        let committed = fs::read_to_string(folder.join(&file.name)).unwrap_or_default();
        assert!(committed == file.contents(), "lua/assembled/{} is not current; {advice}", file.name);
    }
    let known: BTreeSet<String> = files.into_iter().map(|file| file.name).collect();
    let found = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let others: Vec<String> = found.filter(|name| !known.contains(name)).collect();
    assert!(others.is_empty(), "lua/assembled has files that nothing assembles: {others:?}; {advice}");
}
