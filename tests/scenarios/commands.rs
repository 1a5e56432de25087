//! `antares serve` and the commands for servers, as processes.

use std::{fs, path::Path};

use antares_chain::exits;
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    server::{self, Server, alone, ended, started, until},
    tls::antares,
};

/// The smallest script, as a file.
fn script(data: &TempDir) -> String {
    let path = data.path().join("script");
    fs::write(&path, exits(0)).unwrap();
    path.display().to_string()
}

/// `antares` without a server.
fn command(words: &[&str]) -> (Option<i32>, String) {
    ended(&mut server::antares(words))
}

#[test]
fn a_server_lives_from_start_to_sigterm() {
    let data = tempfile::tempdir().unwrap();
    let (server, log) = Server::start_logged(&data, "");
    let file = script(&data);
    let run = |tier: &str| -> Value {
        let (status, said) = ended(&mut antares(&server.address, &["run", &file, "--json", "--tier", tier]));
        assert_eq!(status, Some(0), "{said}");
        serde_json::from_str(said.lines().next().unwrap()).unwrap()
    };
    let [first, second, interpreted] = ["native", "native", "interpreter"].map(run);
    assert_eq!((&first["outcome"], &first["cache"]), (&"exit".into(), &"miss".into()), "{first}");
    assert_eq!((&second["cache"], &second["compile_ms"]), (&"hit".into(), &0.into()), "{second}");
    assert_eq!((&interpreted["cache"], &interpreted["cycles"]), (&"none".into(), &first["cycles"]));
    assert_eq!((&first["cycles"], &first["code_tier"]), (&second["cycles"], &"baseline".into()));
    // The first log line and a metric identify the build.
    let (log, page) = (fs::read_to_string(log).unwrap(), server.get("/metrics"));
    let line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    let info = page.lines().find(|line| line.starts_with("antares_build_info{")).unwrap();
    for name in ["version", "revision", "engine"] {
        assert!(info.contains(&format!("{name}={}", line[name])), "{name} of {line} is not in {info}");
    }
    let show = |words: &[&str]| ended(&mut antares(&server.address, &[&["profile"], words].concat()));
    let (status, table) = show(&[]);
    let cycles = 3 * first["cycles"].as_u64().unwrap();
    assert!(status == Some(0) && table.starts_with(&format!("{cycles} cycles of all runs")), "{table}");
    // An unknown script, and an option that has no meaning here.
    assert_eq!(show(&[&"0".repeat(64)]).0, Some(3));
    assert_eq!(show(&["--max-cycles", "7"]).0, Some(2));
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_wrong_configuration_ends_with_2_and_all_mistakes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("antares.toml");
    for (text, reported) in [
        (
            "[listen]\ncalls_max = 0\n[runner]\nworkers_max = 0\n",
            &["listen.calls_max", "runner.workers_max"][..],
        ),
        ("[listen]\nspeed = \"high\"\n", &["speed"]),
    ] {
        fs::write(&path, text).unwrap();
        let (status, said) = command(&["serve", "--check-config", "--config", path.to_str().unwrap()]);
        assert!(status == Some(2) && reported.iter().all(|word| said.contains(word)), "{said}");
    }
}

/// Output of doctor on a layer, for both kinds of workers, with these configuration sections.
fn doctor(folder: &Path, sections: &str, layer: &str) -> Vec<String> {
    let config = folder.join("doctor.toml");
    fs::write(&config, sections).unwrap();
    let (status, text) = command(&["doctor", "--config", config.to_str().unwrap()]);
    // Required layers may be missing on this machine.
    assert!(matches!(status, Some(0 | 1)), "{text}");
    let of_layer = text.lines().filter(|line| line.split_whitespace().nth(1) == Some(layer));
    of_layer.map(ToOwned::to_owned).collect()
}

#[test]
fn doctor_tries_what_the_configuration_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let group = folder.path().join("group");
    let asked = format!("[sandbox]\ncgroup = {group:?}\n[compiler]\nmemory_bytes_max = 1073741824\n");
    let lines = |sections: &str| doctor(folder.path(), sections, "control_group");
    assert!(lines("").iter().all(|line| line.ends_with("not asked for")), "{:?}", lines(""));
    // The group does not exist.
    let [runs, compiles] = &lines(&asked)[..] else { panic!("a line for each kind") };
    for line in [runs, compiles] {
        assert!(line.contains("MISSING") && line.contains(group.to_str().unwrap()), "{line}");
    }
    // Files of this folder accept writes, so it passes for a group.
    fs::create_dir(&group).unwrap();
    fs::write(group.join("cgroup.controllers"), "memory\n").unwrap();
    let [runs, compiles] = &lines(&asked)[..] else { panic!("a line for each kind") };
    assert!(runs.contains("stands") && runs.ends_with("2048 MiB for each worker"), "{runs}");
    assert!(compiles.contains("stands") && compiles.ends_with("1024 MiB for each worker"), "{compiles}");
    // A runner alone has a configuration that is invalid for a combined process.
    assert_eq!(lines("[runner]\ncompiler_url = \"http://compiler:50051\"\n").len(), 2);
    let wrong = folder.path().join("doctor.toml");
    fs::write(&wrong, "[sandbox]\ncgroup = \"relative\"\n").unwrap();
    assert_eq!(command(&["doctor", "--config", wrong.to_str().unwrap()]).0, Some(2));
}

#[test]
fn a_server_of_another_kind_is_reported() {
    let (data, compiler) = alone("antares-compiler-svc", "");
    let (status, said) = ended(&mut antares(&compiler.address, &["run", &script(&data)]));
    let reported = "is a compiler service alone; this needs the address of a runner service";
    assert!(status == Some(3) && said.contains(reported), "{said}");
}

#[test]
fn a_server_can_be_asked_about_itself() {
    let (data, server) = started("");
    let file = script(&data);
    let ask = |words: &[&str], expected: i32| {
        // The variable selects the server.
        let (status, text) = ended(server::antares(words).env("ANTARES_SERVER", &server.address));
        assert_eq!(status, Some(expected), "{words:?}: {text}");
        text
    };
    ask(&["stat", &file], 1);
    assert!(ask(&["upload", &file], 0).ends_with("stored\n"));
    assert!(ask(&["stat", &file], 0).contains("stored  132 bytes"));
    assert!(ask(&["run", &file, "--json"], 0).contains("\"cache\":\"miss\""));
    let text = ask(&["ls"], 0);
    let digest = text.lines().nth(1).expect("a script").split(' ').next().expect("its digest");
    assert_eq!(digest.len(), 64, "{text}");
    ask(&["stat", digest], 0);
    assert!(ask(&["pin", digest], 0).ends_with("pinned\n"));
    let text = ask(&["ls", "--stored"], 0);
    assert!(text.contains(digest) && text.ends_with("pinned, used\n"), "{text}");
    // The full compile follows the baseline's; if it ended later, it would restore removed artifacts.
    until("both artifacts are listed", || ask(&["ls", "--stored", "--artifacts"], 0).lines().count() == 3);
    ask(&["unpin", digest], 0);
    assert!(ask(&["rm", digest], 0).contains("removed, "));
    ask(&["rm", digest], 1);
    ask(&["stat", digest], 1);
    let text = ask(&["health"], 0);
    assert!(text.lines().count() == 7 && !text.contains("not serving"), "{text}");
    let text = ask(&["capabilities"], 0);
    assert!(text.contains("llvm") && text.contains("script_bytes_max"), "{text}");
    assert!(ask(&["top", digest], 0).contains("function"));
    assert_eq!(command(&["ls"]).0, Some(2), "no server is named");
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn failed_calls_are_logged_with_their_particulars() {
    let data = tempfile::tempdir().unwrap();
    let (server, log) = Server::start_logged(&data, "");
    assert_eq!(ended(&mut antares(&server.address, &["profile", &"0".repeat(64)])).0, Some(3));
    // The first call sends the digest, which the server does not have.
    assert_eq!(ended(&mut antares(&server.address, &["run", &script(&data)])).0, Some(0));
    let line = |reason: &str| {
        let log = fs::read_to_string(&log).unwrap();
        log.lines().find(|line| line.contains("call done") && line.contains(reason)).map(str::to_owned)
    };
    until("the log has both", || line("SCRIPT_NOT_FOUND").is_some() && line("PROFILE_NOT_FOUND").is_some());
    let line = line("SCRIPT_NOT_FOUND").unwrap();
    for part in [
        "\"reason\":\"SCRIPT_NOT_FOUND\"",
        "\"execution_id\":\"",
        "\"peer\":\"127.0.0.1\"",
        "\"code\":\"NOT_FOUND\"",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert_eq!(server.stop(), Some(0));
}
