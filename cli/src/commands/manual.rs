//! `antares man`: manual pages of the command and its subcommands.

use std::{fs, path::Path};

use anyhow::Context as _;
use clap::{Command, CommandFactory as _};

use crate::{args::Cli, failure::Failure, output};

/// Writes a page for each command to `folder`.
pub(crate) fn write(folder: &Path) -> Result<(), Failure> {
    let pages = pages(Cli::command());
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot make {}", folder.display()))
        .map_err(Failure::Usage)?;
    pages.iter().try_for_each(|(name, page)| output::write(&folder.join(name), page))
}

/// File names and pages of `command` and its subcommands.
fn pages(mut command: Command) -> Vec<(String, Vec<u8>)> {
    command.build();
    let mut pages = Vec::new();
    add(&command, command.get_name(), &mut pages);
    pages
}

fn add(command: &Command, name: &str, pages: &mut Vec<(String, Vec<u8>)>) {
    let mut page = Vec::new();
    // Writing to memory does not fail.
    let _ = clap_mangen::Man::new(command.clone()).title(name).render(&mut page);
    pages.push((format!("{name}.1"), page));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        add(below, &format!("{name}-{}", below.get_name()), pages);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        let pages = pages(Cli::command());
        for name in ["antares.1", "antares-run.1", "antares-profile-diff.1", "antares-fuzz.1"] {
            let found = pages.iter().find(|(page, _)| page == name);
            let text = String::from_utf8_lossy(&found.expect(name).1).into_owned();
            assert!(text.contains(".SH NAME") && text.contains(".SH OPTIONS"), "{text}");
        }
        assert!(pages.iter().all(|(name, _)| !name.contains("behind")));
    }
}
