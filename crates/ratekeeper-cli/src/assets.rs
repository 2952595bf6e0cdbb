//! `ratekeeper assets DIR`: shell completions and manual pages, made from the command line's definition.
//!
//! Hidden, and only in builds with the feature `assets`: `scripts/release` runs it, and the released program is smaller
//! without it.

use std::{fs, io, path::Path, process::ExitCode};

use clap::{Command, CommandFactory, ValueEnum};
use clap_complete::{Shell, generate_to};
use clap_mangen::Man;

use crate::{
    cli::Cli,
    report::{CommandResult, Failure},
};

pub(crate) fn run(directory: &Path) -> CommandResult {
    let unwritable = |cause: io::Error| Failure::Output { name: directory.display().to_string(), cause };
    write(directory).map_err(unwritable)?;
    Ok(ExitCode::SUCCESS)
}

fn write(directory: &Path) -> io::Result<()> {
    let (completions, pages) = (directory.join("completions"), directory.join("man"));
    fs::create_dir_all(&completions)?;
    fs::create_dir_all(&pages)?;
    // Without this command itself, which users do not have.
    let mut command = Cli::command();
    let others: Vec<Command> = command.get_subcommands().filter(|one| one.get_name() != "assets").cloned().collect();
    command = clap::Command::new("ratekeeper")
        .about(command.get_about().cloned().unwrap_or_default())
        .after_help(command.get_after_help().cloned().unwrap_or_default())
        .version(env!("CARGO_PKG_VERSION"))
        .subcommands(others);
    for shell in Shell::value_variants() {
        if *shell != Shell::Elvish {
            generate_to(*shell, &mut command, "ratekeeper", &completions)?;
        }
    }
    command.build();
    write_pages(&command, "ratekeeper", &pages)
}

/// One page for the command, and one for each of its commands: `ratekeeper-config-check.1`.
fn write_pages(command: &Command, name: &str, directory: &Path) -> io::Result<()> {
    let named = command.clone().name(name.to_owned()).display_name(name.to_owned());
    let mut page = Vec::new();
    Man::new(named).title(name.to_uppercase()).render(&mut page)?;
    fs::write(directory.join(format!("{name}.1")), page)?;
    for one in command.get_subcommands().filter(|one| one.get_name() != "help" && !one.is_hide_set()) {
        write_pages(one, &format!("{name}-{}", one.get_name()), directory)?;
    }
    Ok(())
}
