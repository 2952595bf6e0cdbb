//! Public API listing: prints the public items of one crate, one per line, from rustdoc's JSON.
//!
//! A change that callers cannot notice leaves the list as it is: inherent `impl` blocks have no line, and a type of
//! another crate of the workspace is named without its modules, which may be private. Of derived traits only the `impl`
//! line is listed; their methods follow from it. Of auto traits only the absence of `Send` and `Sync` is listed.

use public_api::Builder;
use std::collections::HashSet;
use std::{env, error::Error};

fn main() -> Result<(), Box<dyn Error>> {
    let json = env::args().nth(1).ok_or("usage: ratekeeper-api FILE.json")?;
    let all = Builder::from_rustdoc_json(&json).omit_blanket_impls(true);
    let written = lines(all.clone().omit_auto_trait_impls(true).omit_auto_derived_impls(true))?;
    let written: HashSet<String> = written.into_iter().collect();
    let all = lines(all)?;
    let own = all[0].trim_start_matches("pub mod ").to_owned();
    for line in all {
        let listed = if let Some((name, _)) = line.split_once(" for ").filter(|_| line.starts_with("impl")) {
            match AUTO_TRAITS.iter().any(|auto| name.ends_with(auto)) {
                true => name.ends_with("!core::marker::Send") || name.ends_with("!core::marker::Sync"),
                false => !name.ends_with("::StructuralPartialEq"),
            }
        } else {
            written.contains(&line) && !line.starts_with("impl")
        };
        if listed {
            println!("{}", without_foreign_modules(&line, &own));
        }
    }
    Ok(())
}

const AUTO_TRAITS: [&str; 7] =
    ["::Send", "::Sync", "::Unpin", "::UnwindSafe", "::RefUnwindSafe", "::Freeze", "::UnsafeUnpin"];

/// The items in the order of `public-api`, which is stable.
fn lines(api: Builder) -> public_api::Result<Vec<String>> {
    Ok(api.build()?.items().map(ToString::to_string).collect())
}

/// `ratekeeper_core::private::Type` becomes `ratekeeper_core::Type` in the list of another crate.
fn without_foreign_modules(line: &str, own: &str) -> String {
    let is_path = |byte: char| byte.is_alphanumeric() || byte == '_' || byte == ':';
    let mut short = String::new();
    for part in line.split_inclusive(|next| !is_path(next)) {
        let (path, rest) = part.split_at(part.trim_end_matches(|last| !is_path(last)).len());
        let (root, inner) = path.split_once("::").unwrap_or((path, ""));
        let is_type = |name: &&str| name.starts_with(|first: char| first.is_uppercase());
        if root.starts_with("ratekeeper") && root != own && inner.split("::").any(|name| is_type(&name)) {
            let from_type: Vec<&str> = inner.split("::").skip_while(|name| !is_type(name)).collect();
            short += &format!("{root}::{}", from_type.join("::"));
        } else {
            short += path;
        }
        short += rest;
    }
    short
}
