//! `ratekeeper config`: checks rule files and prints their schema.

mod precedence;
mod speed;
mod warnings;

use std::{
    io::{self, Read, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use ratekeeper_core::{Effect, Policy, Rule};
use ratekeeper_http::explain::numbers;
use ratekeeper_rules::{
    Allowance, EnvoyDescriptor, Format, MAX_FILE_BYTES, MatchValue, Problems, RuleFile, Rules, read_paths, read_str,
    schema as rules_schema,
};

use crate::report::{self, CommandResult, Failure};

/// Prints every problem of every file, or one line for each policy and the warnings.
pub(crate) fn check(paths: &[PathBuf]) -> CommandResult {
    let read = match paths {
        [only] if only == Path::new("-") => read_input()?,
        several if several.iter().any(|path| path == Path::new("-")) => {
            return Err(Failure::Options("- cannot be combined with files: standard input is checked by itself"));
        }
        paths => read_paths(paths),
    };
    let mut out = io::stdout().lock();
    match read {
        Ok(files) => {
            for file in &files {
                describe(&mut out, file)?;
            }
            let warnings = warnings::all(&files, paths);
            for warning in &warnings {
                writeln!(out, "{warning}")?;
            }
            let checked = report::counted(files.len(), "file");
            match warnings.len() {
                0 => writeln!(out, "{checked}, no problems")?,
                several => writeln!(out, "{checked}, no problems, {}", report::counted(several, "warning"))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            writeln!(out, "{problems}")?;
            writeln!(out, "{}", report::counted(problems.count(), "problem"))?;
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Standard input has no file extension. YAML includes JSON.
fn read_input() -> Result<Result<Vec<RuleFile>, Problems>, Failure> {
    const NAME: &str = "standard input";
    let mut bytes = Vec::new();
    let unreadable = |cause| Failure::Unreadable { file: NAME.to_owned(), cause };
    io::stdin().lock().take(MAX_FILE_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_FILE_BYTES {
        return Err(Failure::Option(format!("{NAME}: larger than {MAX_FILE_BYTES} bytes; rule files are smaller")));
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Failure::Option(format!("{NAME}: not UTF-8; rule files are text in that encoding")))?;
    Ok(read_str(NAME, &text, Format::Yaml).map(|file| vec![file]))
}

/// The JSON Schema of rule files.
pub(crate) fn schema() -> CommandResult {
    let mut out = io::stdout().lock();
    let schema = serde_json::to_string_pretty(&rules_schema()).map_err(io::Error::from).map_err(Failure::from)?;
    writeln!(out, "{schema}")?;
    Ok(ExitCode::SUCCESS)
}

fn describe(out: &mut impl Write, file: &RuleFile) -> io::Result<()> {
    match &file.rules {
        Rules::Policies(entries) => {
            for entry in entries {
                let pattern = match entry.matcher.as_slice() {
                    [] => "every request".to_owned(),
                    entries => entries.iter().map(|(key, value)| pair(key, value)).collect::<Vec<_>>().join(", "),
                };
                let (name, line) = (entry.policy.name(), entry.line);
                let written = entry.policy.rules().iter().map(|ready| ready.rule()).chain(&entry.disabled);
                let written = written.map(|rule| {
                    let counts = if rule.counts_refused() { ", counts refused requests" } else { "" };
                    format!("{}{counts}", self::rule(rule))
                });
                let effect = match entry.policy.effect() {
                    Effect::Deny => Some("denies every request".to_owned()),
                    Effect::Unlimited => Some("unlimited".to_owned()),
                    _ => None,
                };
                let written = effect.into_iter().chain(written).chain(speed::describe(&entry.policy));
                let written = written.collect::<Vec<_>>().join("; ");
                write!(out, "{}:{line}: {}/{name} ({pattern}): {written}", file.file, file.domain)?;
                match entry.overrides.len() {
                    0 => writeln!(out)?,
                    several => writeln!(out, "; {}", report::counted(several, "override"))?,
                }
            }
        }
        Rules::Descriptors(roots) => describe_limits(out, file, roots)?,
    }
    Ok(())
}

fn describe_limits(out: &mut impl Write, file: &RuleFile, level: &[EnvoyDescriptor]) -> io::Result<()> {
    for descriptor in level {
        if let Some(limit) = &descriptor.limit {
            let mut written = match &limit.allowance {
                Allowance::Unlimited => "unlimited".to_owned(),
                Allowance::RefuseAll { .. } if descriptor.shadow_mode => "refuses all, shadow".to_owned(),
                Allowance::RefuseAll { .. } => "refuses all".to_owned(),
                Allowance::Limited { policy, .. } => rules(policy),
            };
            if descriptor.quota_mode {
                written.push_str(", quota_mode");
            }
            writeln!(out, "{}:{}: {}/{}: {written}", file.file, descriptor.line, file.domain, descriptor.name)?;
        }
        describe_limits(out, file, &descriptor.descriptors)?;
    }
    Ok(())
}

fn pair(key: &str, value: &MatchValue) -> String {
    match value {
        MatchValue::Any => format!("{key}=*"),
        MatchValue::Literal(literal) => format!("{key}={literal}"),
        MatchValue::OneOf(literals) if literals.len() > SHOWN_VALUES => {
            let more = literals.len() - SHOWN_VALUES;
            format!("{key}=[{} and {more} more]", literals[..SHOWN_VALUES].join("|"))
        }
        MatchValue::OneOf(literals) => format!("{key}=[{}]", literals.join("|")),
    }
}

/// Values of a list that one line shows.
const SHOWN_VALUES: usize = 5;

fn rules(policy: &Policy) -> String {
    let written = policy.rules().iter().map(|ready| rule(ready.rule())).chain(speed::describe(policy));
    written.collect::<Vec<_>>().join("; ")
}

/// `burst token_bucket 100 per 1s, burst 200`
fn rule(rule: &Rule) -> String {
    format!("{} {}", rule.name(), numbers(rule))
}
