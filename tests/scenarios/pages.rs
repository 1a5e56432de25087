//! Pages that commands write, in a real browser at a phone's and a desktop's width: nothing exceeds the
//! screen, the code of a function has its cycles, and lines and instructions highlight each other.

use std::{collections::BTreeMap, fs, process::Command, sync::mpsc::channel};

use antares_abi::Isa;
use antares_profile::Profile;
use antares_profile_view::{Programs, SourceCoverage, View, coverage_page, profile_page};
use antares_tests::s3;
use antares_vm::{Limits, Machine, RunScript};
use bytes::Bytes;
use serde_json::Value;

use crate::{
    browser::{Browser, page},
    server::PATIENCE,
};

/// A program whose hot function is in a file with a very long line.
const SOURCE: &str = include_str!("pages.c");

/// Inspects a page in a frame of a given width, since windows cannot be that narrow.
const FRAMES: &str = include_str!("pages.html");

fn profile(folder: &std::path::Path, rounds: u32) -> (Profile, Programs) {
    let (source, elf) = (folder.join("guest.c"), folder.join(format!("guest-{rounds}")));
    fs::write(&source, SOURCE).unwrap();
    let mut compiler = Command::new("riscv64-unknown-elf-gcc");
    compiler.args(["-march=rv64imc", "-mabi=lp64", "-g", "-O1", "-nostdlib", "-static"]);
    compiler.arg(format!("-DROUNDS={rounds}")).arg(format!("-ffile-prefix-map={}=.", folder.display()));
    assert!(compiler.arg("-o").args([&elf, &source]).status().unwrap().success());
    let elf = Bytes::from(fs::read(elf).unwrap());
    let limits = Limits { cycles_max: 1 << 30, debug_bytes_max: 1 << 20 };
    let script = RunScript { elf: &elf, args: &[], vm_version: 2, isa: Isa::of_version(2).0 };
    let (_, recording) = Machine::new().unwrap().profile(&script, &limits).unwrap();
    let mut programs = Programs::default();
    programs.add(&elf);
    (recording.to_profile(), programs)
}

fn pages() -> BTreeMap<&'static str, String> {
    let folder = tempfile::tempdir().unwrap();
    let source = |file: &str| file.ends_with("guest.c").then(|| SOURCE.to_owned());
    let ((after, programs), (before, earlier)) = (profile(folder.path(), 50), profile(folder.path(), 20));
    let (after, before) = (View::new(&after, &programs), View::new(&before, &earlier));
    let labels = BTreeMap::from([("script".to_owned(), "x".repeat(64))]);
    let mut coverage = SourceCoverage::default();
    coverage.add(after.profile(), after.programs());
    BTreeMap::from([
        ("/", FRAMES.to_owned()),
        ("/profile", profile_page(&after, &labels, None, &source)),
        ("/diff", profile_page(&after, &labels, Some(&before), &source)),
        ("/coverage", coverage_page("Coverage", &coverage.files(), &source)),
    ])
}

#[test]
fn pages_fit_a_phone_and_show_code_with_its_cycles() {
    let ((tell, reported), pages) = (channel(), pages());
    let url = s3::server(move |request| {
        if request.target().0 == "/told" {
            let _ = tell.send(serde_json::from_slice(&request.body).unwrap());
        }
        page(pages.get(request.target().0).map(String::as_str).unwrap_or_default())
    });
    let _browser = Browser::open(&url);
    let reported: Value = reported.recv_timeout(PATIENCE).expect("the page says what it found");
    assert_eq!(reported["failed"], Value::Null, "{reported}");
    for (page, width) in [("/profile", 390), ("/diff", 390), ("/coverage", 390), ("/coverage", 1200)] {
        let reported = &reported[format!("{page}{width}")];
        assert_eq!(reported["overflow"], 0, "{page} at {width}: {reported}");
        assert!(reported["text"].as_u64() > Some(200), "{page} at {width}: {reported}");
    }
    for (page, changed) in [("/profile", false), ("/diff", true)] {
        let (phone, desk) = (&reported[format!("{page}390")], &reported[format!("{page}1200")]);
        for found in [phone, desk] {
            assert_eq!(found["panes"], 2, "source and instructions: {found}");
            assert!(found["hottest"].as_str().unwrap().contains("x * 3"), "{found}");
            assert!(found["cycles"].as_u64() > Some(1000), "{found}");
            assert_eq!(found["linked"][0], 1, "{found}");
            assert!(found["linked"][1].as_u64() > Some(3), "{found}");
            assert_eq!(found["changed"].as_u64() > Some(0), changed, "{found}");
            assert!(found["graph"].as_u64() > Some(1), "{found}");
        }
        assert_eq!((&phone["stacked"], &desk["stacked"]), (&true.into(), &false.into()));
        assert!(phone["buttons"].as_u64() >= Some(36), "a finger hits them: {phone}");
    }
    assert!(reported["/coverage390"]["files"].as_u64() == Some(1), "{reported}");
}
