//! The groups of commands in `antares help`, by audience; authors of scripts first.

use std::fmt::Write as _;

use clap::Command;

/// The commands of each audience.
pub(crate) const GROUPS: [(&str, &[&str]); 3] = [
    (
        "For authors of scripts",
        &[
            "new", "test", "watch", "tx", "run", "verify", "dump", "replay", "debug", "debugger", "profile",
            "insights", "optimise", "size", "hash", "snapshot", "coverage", "fuzz", "explain", "compile",
        ],
    ),
    (
        "With a server",
        &["upload", "ls", "stat", "top", "health", "capabilities", "warm", "rm", "pin", "unpin", "admin"],
    ),
    (
        "For operators, and about this program",
        &["serve", "doctor", "cache", "keys", "completions", "man", "help"],
    ),
];

/// `command` with its subcommands in groups.
pub(crate) fn grouped(mut command: Command) -> Command {
    command.build();
    let styles = command.get_styles().clone();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let mut list = String::new();
    for (title, names) in GROUPS {
        // Writing to a string does not fail.
        let _ = writeln!(list, "{header}{title}:{header:#}");
        for name in names {
            let Some(found) = command.find_subcommand(name) else { continue };
            let about = found.get_about().map(ToString::to_string).unwrap_or_default();
            let about =
                if *name == "help" { "Print this, or the help of a command".to_owned() } else { about };
            let _ = writeln!(list, "  {literal}{name:<12}{literal:#}  {about}");
        }
        list.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{list}{header}Options:{header:#}\n{{options}}{{after-help}}"
    );
    command.help_template(template)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn every_command_is_in_a_group() {
        let mut command = grouped(Cli::command());
        let help = command.render_long_help().to_string();
        let shown = command.get_subcommands().filter(|found| !found.is_hide_set());
        for name in shown.map(Command::get_name) {
            assert!(help.contains(&format!("\n  {name} ")), "{name} is in no group:\n{help}");
        }
        let at = |title: &str| help.find(title).unwrap();
        assert!(help.lines().all(|line| line.chars().count() <= 100), "{help}");
        assert!(at("For authors") < at("With a server") && at("With a server") < at("For operators"));
    }
}
