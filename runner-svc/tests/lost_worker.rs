//! A run worker that is killed in the middle of its work. In a process of its own: it finds its victim among
//! the children of this process.
#![forbid(unsafe_code)]

#[path = "grpc/guest.rs"]
mod guest;
#[path = "grpc/node.rs"]
mod node;

use std::process::Command;

use antares_proto::v1;
use node::{Node, inline, reason, wait_until};
use tonic::Code;

fn endless() -> v1::ExecuteRequest {
    let mut request = inline(&guest::loops(), v1::Tier::Native);
    request.limits = Some(v1::RunLimits {
        max_cycles: Some(1_000_000_000_000),
        deadline_ms: Some(30_000),
        debug_bytes_max: None,
    });
    request
}

/// Process ids of the children in the run stage of the zygotes called `name` under this process.
fn workers_of(name: &str) -> Vec<String> {
    let children = |process: &str| -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
        lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
    };
    let is_named = |process: &String| {
        let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(name)
    };
    let zygotes = children(&std::process::id().to_string()).into_iter().filter(is_named);
    let is_running = |process: &String| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        status.contains("Seccomp_filters:\t3")
    };
    zygotes.flat_map(|zygote| children(&zygote)).filter(is_running).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_fails_its_own_call_and_no_other() {
    let node = Node::both("").await;
    let mut client = node.run_client();
    let call = tokio::spawn(async move { client.execute(endless()).await });
    wait_until("the worker runs", || async {
        node.metric("antares_workers_busy{role=\"run\"}") == Some(1.0)
    })
    .await;
    wait_until("the run stage", || async { !workers_of("antares-run-worker").is_empty() }).await;
    let workers = workers_of("antares-run-worker");
    assert!(Command::new("kill").arg("-9").args(&workers).status().unwrap().success());
    let status = call.await.unwrap().unwrap_err();
    assert_eq!((status.code(), reason(&status).as_str()), (Code::Unavailable, "WORKER_LOST"), "{status}");
    let next = node.execute(inline(&guest::exits(0), v1::Tier::Native)).await.unwrap();
    assert_eq!(next.verdict.unwrap().exit_code, Some(0));
    assert_eq!(node.metric("antares_executions_total{outcome=\"worker_lost\"}"), Some(1.0));
    assert_eq!(node.metric("antares_workers_lost_total{role=\"run\"}"), Some(1.0));
}
