//! `tollgate config`: rule files looked at without running anything.

use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use tollgate_core::{Algorithm, Align, Policy, Refill, Rule};
use tollgate_rules::{MatchValue, RuleFile, Rules, read_paths, schema as rules_schema};

use crate::report::{self, Failure, Outcome};

/// Every problem of every file, or one line about each policy.
pub(crate) fn check(paths: &[PathBuf]) -> Outcome {
    let mut out = io::stdout().lock();
    match read_paths(paths) {
        Ok(files) => {
            for file in &files {
                describe(&mut out, file)?;
            }
            let words = report::counted(files.len(), "file");
            writeln!(out, "{words}, no problems")?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            writeln!(out, "{problems}")?;
            writeln!(out, "{}", report::counted(problems.count(), "problem"))?;
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The JSON Schema of rule files.
pub(crate) fn schema() -> Outcome {
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
                write!(out, "{}:{line}: {}/{name} ({pattern}): {}", file.file, file.domain, rules(&entry.policy))?;
                match entry.overrides.len() {
                    0 => writeln!(out)?,
                    several => writeln!(out, "; {}", report::counted(several, "override"))?,
                }
            }
        }
        Rules::Descriptors(_) => {
            for chosen in crate::policies::gather(file) {
                let name = chosen.policy.name();
                writeln!(out, "{}: {}/{name}: {}", file.file, file.domain, rules(&chosen.policy))?;
            }
        }
    }
    Ok(())
}

fn pair(key: &str, value: &MatchValue) -> String {
    match value {
        MatchValue::Any => format!("{key}=*"),
        MatchValue::Literal(literal) => format!("{key}={literal}"),
    }
}

fn rules(policy: &Policy) -> String {
    let told = policy.rules().iter().map(|ready| rule(ready.rule()));
    told.collect::<Vec<_>>().join("; ")
}

/// `burst token_bucket 100 per 1s, burst 200`
fn rule(rule: &Rule) -> String {
    format!("{} {}", rule.name(), numbers(rule))
}

/// `token_bucket 100 per 1s, burst 200`
pub(crate) fn numbers(rule: &Rule) -> String {
    let (algorithm, quota) = (rule.algorithm(), rule.quota());
    let per = format!("{} {} per {}", algorithm.name(), quota.limit(), quota.period());
    let burst = quota.burst_or_limit();
    let mut told = match algorithm {
        Algorithm::TokenBucket { refill: Refill::Continuous } => format!("{per}, burst {burst}"),
        Algorithm::TokenBucket { refill: Refill::Stepwise } => format!("{per}, burst {burst}, stepwise"),
        Algorithm::LeakyBucket { shaped: false } => format!("{per}, capacity {burst}"),
        Algorithm::LeakyBucket { shaped: true } => format!("{per}, capacity {burst}, shaped"),
        Algorithm::FixedWindow { align: Align::Epoch } => per,
        Algorithm::FixedWindow { align: Align::FirstRequest } => format!("{per} from the first request"),
        Algorithm::FixedWindow { align: Align::Calendar(offset) } => format!("{per} of the calendar, UTC{offset}"),
        Algorithm::SlidingCounter { buckets } => format!("{per} in {buckets} buckets"),
        Algorithm::Concurrency { lease } => format!("{} {} at once, lease {lease}", algorithm.name(), quota.limit()),
        _ => per,
    };
    if rule.is_shadow() {
        told.push_str(", shadow");
    }
    told
}
