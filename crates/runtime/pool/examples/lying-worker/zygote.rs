//! The zygote that lies about its first child. A marker file next to the program makes the next one honest.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    fs,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    process::{Child, Command},
    thread,
};

use antares_sandbox::{Layer, LayerStatus};
use rustix::{
    net::{SendFlags, send},
    process::{Pid, PidfdFlags, getpid, getppid, pidfd_open},
};

use crate::{
    wire::{self, NEWS_BYTES_MAX, News, SPAWN_BYTES_MAX, Spawn},
    worker,
};

/// Tells `lie`, or works as an honest zygote after the lie.
pub(crate) fn work(program: &Path, lie: &str) {
    let reported = program.with_extension("told");
    if reported.exists() {
        return worker::work();
    }
    fs::write(reported, getpid().as_raw_nonzero().to_string()).unwrap();
    let socket = std::io::stdin();
    let socket = socket.as_fd();
    let layers = Layer::ALL.map(|layer| LayerStatus { layer, active: true, detail: String::new() });
    wire::send(socket, &News::Ready { layers: layers.to_vec() }, &[]).unwrap();
    let (spawn, given) = wire::receive::<Spawn, SPAWN_BYTES_MAX>(socket).unwrap().unwrap();
    let child = Command::new("sleep").arg("60").spawn().unwrap();
    send_lie(socket, lie, spawn.ticket, child);
    drop(given);
    loop {
        thread::park();
    }
}

fn send_lie(socket: BorrowedFd<'_>, lie: &str, ticket: u64, mut child: Child) {
    let handle = |process: Pid| pidfd_open(process, PidfdFlags::empty()).unwrap();
    let own = handle(Pid::from_child(&child));
    let say = |news: News, handles: &[&OwnedFd]| {
        let handles: Vec<_> = handles.iter().map(|handle| handle.as_fd()).collect();
        wire::send(socket, &news, &handles).unwrap();
    };
    let spawned = News::Spawned { ticket };
    let bytes = |bytes: &[u8]| {
        send(socket, bytes, SendFlags::NOSIGNAL).unwrap();
    };
    match lie {
        "supervisor-s-pid" => say(spawned, &[&handle(getppid().unwrap())]),
        "dead-pid-twice" => {
            child.kill().unwrap();
            child.wait().unwrap();
            say(spawned.clone(), &[&own]);
            say(spawned, &[&own]);
        }
        "failed-later" => say(News::Failed { detail: "no".repeat(1000) }, &[]),
        "garbage" => bytes(&[0xff; 64]),
        "cut" => bytes(&[2]),
        "too-long" => bytes(&[0; NEWS_BYTES_MAX + 1]),
        "many-handles" => say(spawned, &[&own; wire::PACKET_FDS_MAX]),
        _ => panic!("no such lie: {lie}"),
    }
}
