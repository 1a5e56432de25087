//! Life cycle: deadlines, killed workers, zygotes and supervisors, and no leftovers.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use antares_pool::{
    Cancel, Layer, Pool, PoolConfig, PoolError, Sealed, Until, Verdict,
    job::{RunReport, TransactionForm, VerifyFiles, VerifyJob, VerifyReport},
};

use crate::{
    hostile::{self, PATIENCE, assert_works, attempt, job, send, start, worker},
    processes::{ALONE, alone, children, eventually, kill, stat, zygote},
};

/// Runs an attempt that does not end by itself, concurrently with `meanwhile`.
fn during(pool: &Pool, attempt: &str, meanwhile: impl FnOnce(u32)) -> Verdict<String> {
    let zygote = zygote(pool);
    // The previous call's worker may still be ending.
    eventually("no worker", || children(zygote).is_empty());
    thread::scope(|scope| {
        let running = scope.spawn(|| hostile::attempt(pool, "run", attempt, &[]));
        // A job that a child has not read yet would be passed to another one.
        let worker = || children(zygote).into_iter().find(|child| is_in_run_stage(*child));
        eventually("a worker in the run stage", || worker().is_some());
        meanwhile(worker().unwrap());
        running.join().unwrap()
    })
}

/// Whether the filters of the zygote, the load stage and the run stage are active.
fn is_in_run_stage(worker: u32) -> bool {
    fs::read_to_string(format!("/proc/{worker}/status")).is_ok_and(|status| status.contains("filters:\t3"))
}

#[test]
fn all_layers_stand_in_every_worker() {
    let pool = start(1, &[]).unwrap();
    for status in pool.layers() {
        if !status.active {
            println!("skipped: {status}");
            assert!(!status.layer.is_required(), "{status}");
        }
    }
    let zygote = zygote(&pool);
    let check = |number: u32, filters: &str| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap();
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
            line.unwrap_or_else(|| panic!("no {name} in {status}")).trim().to_owned()
        };
        assert_eq!([field("Seccomp"), field("NoNewPrivs"), field("Threads")], ["2", "1", "1"]);
        assert_eq!(field("Seccomp_filters"), filters);
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            assert_eq!(field(set), "0000000000000000", "{set}");
        }
        if hostile::status(&pool, Layer::UnprivilegedUser).active {
            assert!(!field("Uid").split('\t').any(|uid| uid == "0"), "{}", field("Uid"));
        }
        // When memory is out, it ends before its supervisor.
        let score = fs::read_to_string(format!("/proc/{number}/oom_score_adj")).unwrap();
        assert_eq!(score.trim(), "1000");
    };
    check(zygote, "1");
    // The filters of the zygote, the load stage and the run stage are active; the deadline ends it.
    let verdict = during(&pool, "loop", |worker| {
        check(worker, "3");
        kill(worker);
    });
    assert!(matches!(verdict, Verdict::WorkerLost { .. }), "{verdict:?}");
}

#[test]
fn a_deadline_ends_whatever_a_worker_does() {
    let pool = start(1, &[]).unwrap();
    for (stage, name) in [("run", "loop"), ("run", "hang"), ("load", "loop"), ("load", "hang")] {
        let since = Instant::now();
        let verdict = send(&pool, &job(stage, name, &[]), Duration::from_millis(100)).unwrap();
        assert_eq!(verdict, Verdict::DeadlineExceeded, "{stage} {name}");
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        // The only slot must be free again.
        assert_works(&pool);
    }
    assert_eq!(pool.stats().deadline_total, 4);
}

/// Runs `job` and cancels it after `pause`. Returns the answer, and its delay after the cancellation.
fn take_back(
    pool: &Pool,
    attempt: &str,
    pause: Duration,
) -> (Result<Verdict<RunReport>, PoolError>, Duration) {
    let (cancel, elf) = (Cancel::new(), Sealed::new("elf", b"not an elf").unwrap());
    thread::scope(|scope| {
        let until = Until::new(Instant::now() + PATIENCE, &cancel);
        let run = || (pool.run(&job("run", attempt, &[]), &elf, None, until), Instant::now());
        let running = scope.spawn(run);
        thread::sleep(pause);
        let since = Instant::now();
        cancel.cancel();
        let (answer, ended) = running.join().unwrap();
        (answer, ended.saturating_duration_since(since))
    })
}

#[test]
fn a_job_that_is_taken_back_ends_at_once() {
    let pool = start(1, &[]).unwrap();
    let mut took = Vec::new();
    // From before the worker exists to the middle of its work.
    for pause_ms in [0, 0, 1, 1, 2, 3, 5, 10, 20, 20, 30, 30, 50, 50, 50] {
        for name in ["loop", "hang"] {
            let (answer, after) = take_back(&pool, name, Duration::from_millis(pause_ms));
            assert!(matches!(answer, Err(PoolError::Cancelled)), "{name}: {answer:?}");
            took.push(after);
        }
    }
    took.sort();
    println!("taken back: median {:?}, longest {:?}", took[took.len() / 2], took[took.len() - 1]);
    assert!(took[took.len() / 2] < PATIENCE / 10, "{took:?}");
    eventually("the slot is free", || pool.stats().busy == 0);
    assert_works(&pool);
    let (done, _) = take_back(&pool, "nothing", Duration::from_millis(200));
    assert!(matches!(done, Ok(Verdict::Done(_))), "{done:?}");
    let stats = pool.stats();
    assert_eq!((stats.lost_total, stats.deadline_total), (0, 0));
}

#[test]
fn a_job_that_waits_for_a_worker_can_be_taken_back() {
    let pool = start(1, &[]).unwrap();
    during(&pool, "loop", |worker| {
        let (answer, after) = take_back(&pool, "nothing", Duration::from_millis(20));
        assert!(matches!(answer, Err(PoolError::Cancelled)), "{answer:?}");
        assert!(after < Duration::from_secs(1), "{after:?}");
        assert_eq!(pool.stats().busy, 1);
        kill(worker);
    });
    assert_works(&pool);
}

#[test]
fn deaths_are_distinguished() {
    let pool = start(2, &[]).unwrap();
    let lost = |stage: &str, name: &str| match attempt(&pool, stage, name, &[]) {
        Verdict::WorkerLost { detail } => detail,
        other => panic!("{name}: {other:?}"),
    };
    for (name, signal) in [("segv", "SIGSEGV"), ("ill", "SIGILL"), ("fpe", "SIGFPE"), ("overflow", "SIGSEGV")]
    {
        assert!(lost("run", name).contains(signal), "{name}: {}", lost("run", name));
    }
    assert!(lost("run", "bus").contains("SIG"));
    assert!(lost("run", "panic").contains("says the machine"));
    assert!(lost("load", "panic").contains("says the machine"));
    assert!(lost("run", "exit").contains("status 3"));
    for name in ["flood", "lie", "trailing"] {
        // Bytes that are not a report end the worker at once.
        let verdict = attempt(&pool, "run", name, &[]);
        assert!(matches!(verdict, Verdict::FalseReport { .. }), "{name}: {verdict:?}");
    }
    // 100 GiB exceed the limit; the allocator's abort is a forbidden call for a run worker.
    let verdict = attempt(&pool, "load", "allocate", &[]);
    assert!(hostile::is_violation(&verdict), "{verdict:?}");
    assert_works(&pool);
}

#[test]
fn a_killed_worker_is_lost_for_its_own_caller() {
    let pool = start(2, &[]).unwrap();
    let verdict = during(&pool, "loop", |worker| {
        kill(worker);
        assert_works(&pool);
    });
    assert_eq!(verdict, Verdict::WorkerLost { detail: "killed by SIGKILL".to_owned() });
    assert_works(&pool);
    assert_eq!(pool.stats().lost_total, 1);
}

#[test]
fn a_killed_zygote_is_replaced() {
    let pool = start(2, &[]).unwrap();
    for round in 1..=3 {
        let before = zygote(&pool);
        let mut orphan = 0;
        let verdict = during(&pool, "loop", |worker| {
            orphan = worker;
            kill(before);
        });
        assert!(matches!(verdict, Verdict::WorkerLost { .. }), "{verdict:?}");
        assert_works(&pool);
        assert_ne!(zygote(&pool), before);
        assert_eq!(pool.stats().zygote_restarts_total, round);
        eventually("the orphan's end", || stat(orphan).is_none_or(|(_, is_zombie)| is_zombie));
        eventually("the zygote's end", || {
            stat(before).is_none_or(|(parent, _)| parent != std::process::id())
        });
    }
}

/// The supervisor to be killed: starts two endless workers, and prints its zygote's and their process ids.
fn live_until_killed() {
    let pool = start(2, &[]).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| attempt(&pool, "run", "loop", &[]));
        scope.spawn(|| attempt(&pool, "run", "hang", &[]));
        let zygote = zygote(&pool);
        eventually("two workers", || children(zygote).len() == 2);
        let workers: Vec<String> = children(zygote).iter().map(ToString::to_string).collect();
        println!("\nfamily {zygote} {}", workers.join(" "));
    });
}

#[test]
fn a_killed_supervisor_leaves_nobody() {
    if std::env::var_os(ALONE).is_some() {
        return live_until_killed();
    }
    let mut supervisor = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "life::a_killed_supervisor_leaves_nobody", "--nocapture"])
        .env(ALONE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(supervisor.stdout.take().unwrap()).lines().map(Result::unwrap);
    let family = lines.find_map(|line| line.strip_prefix("family ").map(str::to_owned)).unwrap();
    let family: Vec<u32> = family.split(' ').map(|number| number.parse().unwrap()).collect();
    assert_eq!(family.len(), 3);
    supervisor.kill().unwrap();
    supervisor.wait().unwrap();
    for number in family {
        // The adopting process may reap orphans slowly; a zombie runs nothing.
        eventually("the family's end", || stat(number).is_none_or(|(_, is_zombie)| is_zombie));
    }
}

#[test]
fn two_hundred_runs_leave_nothing_behind() {
    alone("life::two_hundred_runs_leave_nothing_behind", || {
        let pool = start(2, &[]).unwrap();
        let open = || fs::read_dir("/proc/self/fd").unwrap().count();
        let zygote = zygote(&pool);
        let round = |count: u32| {
            for index in 0..count {
                let name = ["nothing", "segv", "socket", "panic"][usize::try_from(index % 4).unwrap()];
                attempt(&pool, "run", name, &[]);
            }
            eventually("no workers", || children(zygote).is_empty() && pool.stats().busy == 0);
        };
        round(8);
        let before = open();
        round(200);
        assert_eq!(open(), before);
        assert_eq!(pool.stats().spawned_total, 208);
    });
}

#[test]
fn what_cannot_start_says_so() {
    let error =
        |worker: &str, workers_max| Pool::start(PoolConfig::new(worker.into(), workers_max)).unwrap_err();
    assert!(matches!(error("/nonexistent", 1), PoolError::Start { .. }));
    assert!(matches!(error("/bin/true", 1), PoolError::NotReady { .. }));
    let hostile = worker();
    let path = hostile.to_str().unwrap();
    assert!(matches!(error(path, 0), PoolError::WorkersMax { found: 0, .. }));
    assert!(matches!(error(path, usize::MAX), PoolError::WorkersMax { .. }));
    assert!(matches!(antares_pool::worker_path("antares-nobody"), Err(PoolError::WorkerNotFound { .. })));
}

/// A command may end while its worker starts: an error message after a correct result would be wrong.
#[test]
fn a_worker_says_nothing_of_a_supervisor_that_has_ended() {
    let own = std::process::id().to_string();
    // The first id is not that of the parent; the second supervisor has closed its socket.
    for supervisor in ["1", &own] {
        let (hung_up, socket) = std::os::unix::net::UnixStream::pair().unwrap();
        drop(hung_up);
        let mut zygote = Command::new(worker());
        zygote.args(["zygote", supervisor]).stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)));
        let output = zygote.output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{supervisor}: {output:?}");
    }
}

#[test]
fn a_job_has_a_size() {
    let pool = start(1, &[]).unwrap();
    let mut large = job("run", "nothing", &[]);
    large.args.push(vec![0; 17 << 20]);
    let answer = send(&pool, &large, PATIENCE);
    assert!(matches!(answer, Err(PoolError::JobTooLarge { .. })), "{:?}", answer.map(|_| ()));
    // A large report within the limit is received.
    large.args[2] = b"7".repeat(8 << 20);
    let elf = Sealed::new("elf", b"").unwrap();
    let verdict = pool.run(&large, &elf, None, Instant::now() + PATIENCE).unwrap();
    assert!(
        matches!(verdict, Verdict::WorkerLost { .. }),
        "a number of that size does not parse: {verdict:?}"
    );
}

#[test]
fn libraries_arrive_in_order_and_not_too_many() {
    let pool = start(1, &[]).unwrap();
    let job = VerifyJob { form: TransactionForm::Json, ..VerifyJob::default() };
    let transaction = Sealed::new("transaction", b"").unwrap();
    let files: Vec<Sealed> = (0..65).map(|number| Sealed::new("library", &[number]).unwrap()).collect();
    let all: Vec<&Sealed> = files.iter().collect();
    for count in [0, 1, 64] {
        let files =
            VerifyFiles { document: Some(&transaction), libraries: &all[..count], ..VerifyFiles::default() };
        let verdict = pool.verify(&job, &files, Instant::now() + PATIENCE).unwrap();
        let Verdict::Done(VerifyReport::Refused { detail, .. }) = verdict else { panic!("{verdict:?}") };
        let expected: String = (0..count).map(|number| format!("[{number}]\n")).collect();
        assert_eq!(detail, expected);
    }
    let files = VerifyFiles { document: Some(&transaction), libraries: &all, ..VerifyFiles::default() };
    let answer = pool.verify(&job, &files, Instant::now() + PATIENCE);
    assert!(matches!(answer, Err(PoolError::TooManyFiles { most: 64 })), "{answer:?}");
}
