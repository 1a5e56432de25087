//! The pages that commands write, in a real browser at a phone's width and at a desk's: nothing is wider than
//! the screen, the code of a function is shown with its cycles, and lines and instructions mark each other.

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    net::{TcpListener, TcpStream},
    process::Command,
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    thread,
};

use antares_abi::Isa;
use antares_profile::Profile;
use antares_profile_view::{Programs, SourceCoverage, View, coverage_page, profile_page};
use antares_vm::{Limits, Machine, RunScript};
use bytes::Bytes;
use serde_json::Value;

use crate::{
    browser::{Browser, request},
    server::PATIENCE,
};

/// A program whose hot function is in a file with a very long line.
const SOURCE: &str = "__attribute__((noinline)) static unsigned mix_the_numbers_of_a_very_long_function_name_that_no_phone_has_room_for(unsigned x, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        x = (x * 3 + (x >> 2)) ^ i ^ (x << 5) ^ (i << 7) ^ (x >> 11) ^ (i * 13) ^ (x * 17) ^ (i << 19) ^ (x >> 23) ^ (i * 29) ^ (x << 3);
    }
    return x;
}
int main_(void) {
    volatile unsigned sum = 1;
    for (int i = 0; i < ROUNDS; i++)
        sum += mix_the_numbers_of_a_very_long_function_name_that_no_phone_has_room_for(sum, 40);
    return sum == 0;
}
__attribute__((naked)) void _start(void) {
    __asm__(\"call main_\\n li a7, 93\\n ecall\");
}
";

/// What looks at a page: in a frame of a width, since windows cannot be that narrow.
const FRAMES: &str = r##"<!doctype html><body><script type="module">
const frame = async (path, width) => {
    const frame = document.createElement("iframe");
    frame.width = width;
    frame.height = 844;
    const loaded = new Promise(done => frame.onload = done);
    frame.src = path;
    document.body.append(frame);
    await loaded;
    const page = frame.contentDocument, root = page.documentElement;
    const told = { overflow: root.scrollWidth - root.clientWidth, text: page.body.innerText.length };
    const code = page.getElementById("code");
    if (code) {
        page.querySelector("#top td.name").click();
        const panes = [...code.children];
        told.panes = panes.length;
        told.stacked = panes[1].offsetTop > panes[0].offsetTop;
        told.graph = page.querySelectorAll(".box").length;
        const hot = [...panes[0].querySelectorAll(".line")].sort((a, b) => cycles(b) - cycles(a))[0];
        told.hottest = hot.lastChild.textContent;
        told.cycles = cycles(hot);
        hot.click();
        told.linked = panes.map(pane => pane.querySelectorAll(".linked").length);
        told.changed = code.querySelectorAll(".more, .less").length;
        told.buttons = Math.min(...[...page.querySelectorAll("header button, select")]
            .filter(one => one.offsetHeight).map(one => one.offsetHeight));
        told.overflow = Math.max(told.overflow, root.scrollWidth - root.clientWidth);
    } else {
        told.files = page.querySelectorAll("tr a").length;
        told.missed = page.querySelectorAll(".miss").length;
    }
    return told;
};
const cycles = line => Number(line.firstChild.textContent.replaceAll(",", "") || 0);
async function all() {
    const told = {};
    for (const path of ["/profile", "/diff", "/coverage"])
        for (const width of [390, 1200]) told[path + width] = await frame(path, width);
    return told;
}
all().catch(error => ({ failed: String(error) })).then(told =>
    fetch("/told", { method: "POST", body: JSON.stringify(told) }));
</script>"##;

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
    let mut programs = Programs::new();
    programs.add(&elf);
    (recording.to_profile(), programs)
}

/// The pages by their paths.
fn pages() -> BTreeMap<&'static str, String> {
    let folder = tempfile::tempdir().unwrap();
    let source = |file: &str| file.ends_with("guest.c").then(|| SOURCE.to_owned());
    let ((after, programs), (before, earlier)) = (profile(folder.path(), 50), profile(folder.path(), 20));
    let (after, before) = (View::new(&after, &programs), View::new(&before, &earlier));
    let labels = BTreeMap::from([("script".to_owned(), "x".repeat(64))]);
    let mut coverage = SourceCoverage::new();
    coverage.add(after.profile(), after.programs());
    BTreeMap::from([
        ("/", FRAMES.to_owned()),
        ("/profile", profile_page(&after, &labels, None, &source)),
        ("/diff", profile_page(&after, &labels, Some(&before), &source)),
        ("/coverage", coverage_page("Coverage", &coverage.files(), &source)),
    ])
}

fn serve(stream: &TcpStream, pages: &BTreeMap<&str, String>, tell: &Sender<Value>) {
    let Some((path, body)) = request(stream) else { return };
    if path == "/told" {
        let _ = tell.send(serde_json::from_slice(&body).unwrap());
    }
    let answer = pages.get(path.as_str()).map(String::as_str).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        answer.len()
    );
    let mut writer = stream;
    let _ = writer.write_all(&[head.as_bytes(), answer.as_bytes()].concat());
}

#[test]
fn pages_fit_a_phone_and_show_code_with_its_cycles() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, told) = channel();
    let pages = Arc::new(pages());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (pages, tell) = (pages.clone(), tell.clone());
            thread::spawn(move || serve(&stream.unwrap(), &pages, &tell));
        }
    });
    let _browser = Browser::open(&format!("http://{address}/"));
    let told: Value = told.recv_timeout(PATIENCE).expect("the page says what it found");
    assert_eq!(told["failed"], Value::Null, "{told}");
    for (page, width) in [("/profile", 390), ("/diff", 390), ("/coverage", 390), ("/coverage", 1200)] {
        let told = &told[format!("{page}{width}")];
        assert_eq!(told["overflow"], 0, "{page} at {width}: {told}");
        assert!(told["text"].as_u64() > Some(200), "{page} at {width}: {told}");
    }
    for (page, changed) in [("/profile", false), ("/diff", true)] {
        let (phone, desk) = (&told[format!("{page}390")], &told[format!("{page}1200")]);
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
    assert!(told["/coverage390"]["files"].as_u64() == Some(1), "{told}");
}
