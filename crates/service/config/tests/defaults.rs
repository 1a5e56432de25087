//! Golden tests of the defaults and of the errors for numbers out of range; `BLESS=1` writes both files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fmt::Write as _, net::SocketAddr, path::Path};

use antares_config::{ConfigError, ConfigFile, Role};
use antares_guests::golden;

/// The defaults as `--print-config` prints them, without the number of CPUs.
fn printed() -> String {
    let mut text = String::new();
    for line in ConfigFile::default().print().unwrap().lines() {
        let is_cpus = line.starts_with("workers_max = ");
        let _ = writeln!(text, "{}", if is_cpus { "workers_max = 1" } else { line });
    }
    text
}

#[test]
fn what_is_printed_is_as_before_and_reads_back() {
    golden("tests/defaults.toml", &printed());
    let printed = ConfigFile::default().print().unwrap();
    assert_eq!(printed.parse::<ConfigFile>().unwrap(), ConfigFile::default());
}

#[test]
fn each_number_has_its_range() {
    let (mut reported, mut section) = (String::new(), "");
    let printed = printed();
    for line in printed.lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']');
        }
        let Some((key, value)) = line.split_once(" = ") else { continue };
        if value.parse::<u64>().is_err() {
            continue;
        }
        for number in [0, i64::MAX] {
            let file: ConfigFile = format!("[{section}]\n{key} = {number}\n").parse().unwrap();
            let _ = match file.check(Role::Both, &[]) {
                Ok(_) => writeln!(reported, "{section}.{key} = {number} is fine"),
                Err(ConfigError::Problems(mistakes)) => mistakes
                    .iter()
                    .try_for_each(|mistake| writeln!(reported, "{section}.{key} = {number}: {mistake}")),
                Err(error) => panic!("{error}"),
            };
        }
    }
    golden("tests/ranges.txt", &reported);
}

#[test]
fn the_command_line_goes_over_the_file() {
    let listen: SocketAddr = "127.0.0.1:7".parse().unwrap();
    let file = ConfigFile::read(None, Some(listen), Some(Path::new("/data"))).unwrap();
    let config = file.check(Role::Both, &[]).unwrap();
    assert_eq!((config.listen.address, config.cache.dir.to_str()), (listen, Some("/data")));
}
