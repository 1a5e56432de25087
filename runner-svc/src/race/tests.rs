//! Each possible end of a race, on a paused clock.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    sync::Notify,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{EarlyRun, HeadStart, Interpreted, LongCompile, PendingCode, idle_worker};

const HEAD_START: Duration = Duration::from_millis(120);
const COMPILE: Duration = Duration::from_millis(50);

/// Whether there is native code, or the call's error.
type Made = Result<bool, &'static str>;

/// One piece of native code.
struct Code {
    long: LongCompile,
    wake: Arc<Notify>,
    making: JoinHandle<Made>,
    has_come: bool,
    there: usize,
    is_kept: bool,
}

impl Code {
    /// Code whose compile yields `made` after [`COMPILE`].
    fn new(is_long: bool, is_stored: bool, made: Made) -> Self {
        let (start, long) = HeadStart::new(HEAD_START, move || is_long);
        let wake = Arc::new(Notify::new());
        let woken = wake.clone();
        let making = tokio::spawn(async move {
            let stored = async { Ok::<_, &'static str>(is_stored.then_some(true)) };
            match start.stored_or_wait(stored, woken.notified()).await? {
                Some(stored) => Ok(stored),
                None => {
                    sleep(COMPILE).await;
                    made
                }
            }
        });
        Self { long, wake, making, has_come: false, there: 0, is_kept: false }
    }

    fn long(made: Made) -> Self {
        Self::new(true, false, made)
    }

    async fn come(&mut self) -> Result<(), &'static str> {
        if !self.has_come {
            let made = (&mut self.making).await.unwrap();
            self.has_come = true;
            self.there = usize::from(made?);
        }
        Ok(())
    }
}

impl PendingCode for Code {
    type Error = &'static str;

    async fn until_long(&mut self) -> Result<bool, &'static str> {
        if self.long.begins().await {
            return Ok(true);
        }
        self.come().await?;
        Ok(false)
    }

    async fn rest(&mut self) -> Result<(), &'static str> {
        self.come().await
    }

    fn wake(&self) {
        self.wake.notify_one();
    }

    fn there(&self) -> usize {
        self.there
    }

    fn keep_later(&mut self) {
        self.is_kept = true;
    }
}

/// Result of a race.
#[derive(Debug, PartialEq)]
struct End {
    answer: Result<Option<&'static str>, &'static str>,
    /// Its end, in milliseconds.
    at: u128,
    /// Milliseconds of the interpreter whose answer is unused.
    overtaken: Option<u128>,
    is_kept: bool,
}

/// Races `code` against an interpreter that ends with `end` after `ms`; "bad" is no answer.
async fn race(code: &mut Code, ms: u64, end: Result<&'static str, &'static str>) -> End {
    let (started, overtaken) = (Instant::now(), Mutex::new(None));
    let worker = idle_worker(code, || Some(())).await;
    assert_eq!(worker, Ok(Some(())));
    let interpreter = EarlyRun {
        run: async {
            sleep(Duration::from_millis(ms)).await;
            end
        },
        is_answer: |answer: &&str| *answer != "bad",
        overtaken: |time: Duration| *overtaken.lock().unwrap() = Some(time.as_millis()),
    };
    let answer = interpreter.race(code).await.map(|answered| {
        answered.map(|Interpreted { answer, began }| {
            assert_eq!(began, started.into_std());
            answer
        })
    });
    let at = started.elapsed().as_millis();
    End { answer, at, overtaken: overtaken.into_inner().unwrap(), is_kept: code.is_kept }
}

#[tokio::test(start_paused = true)]
async fn a_race_has_the_answer_of_whoever_comes_first_with_one() {
    let [made, none, gone] = [Ok(true), Ok(false), Err("gone")];
    let (native, overtaken) = (Ok(None), |at| (at, Some(at), false));
    let kept = |at| (at, None, true);
    for (what, code, (ms, ended), answer, (at, overtaken, is_kept)) in [
        ("native code is first", made, (1_000, Ok("late")), native, overtaken(170)),
        ("the interpreter is first", made, (30, Ok("first")), Ok(Some("first")), kept(30)),
        ("it is first behind the head start", made, (130, Ok("first")), Ok(Some("first")), kept(130)),
        ("no answer wakes the compile", made, (10, Ok("bad")), native, overtaken(60)),
        ("no worker wakes the compile", made, (10, Err("no worker")), native, overtaken(60)),
        ("no code, no answer", none, (10, Ok("bad")), Ok(Some("bad")), kept(60)),
        ("no code, no worker", none, (10, Err("no worker")), Err("no worker"), kept(60)),
        ("the run goes on without code", none, (1_000, Ok("only")), Ok(Some("only")), kept(1_000)),
        ("the compile fails the call", gone, (1_000, Ok("late")), Err("gone"), overtaken(170)),
        ("the compile fails, no answer", gone, (10, Ok("bad")), Err("gone"), overtaken(60)),
    ] {
        let end = race(&mut Code::long(code), ms, ended).await;
        assert_eq!(end, End { answer, at, overtaken, is_kept }, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_an_idle_worker_the_compile_begins_at_once() {
    let (started, mut code) = (Instant::now(), Code::long(Ok(true)));
    assert_eq!(idle_worker(&mut code, || None::<()>).await, Ok(None));
    assert_eq!((started.elapsed().as_millis(), code.there), (50, 1));
}

#[tokio::test(start_paused = true)]
async fn who_needs_the_code_ends_the_head_start() {
    let mut code = Code::long(Ok(true));
    let wake = code.wake.clone();
    tokio::spawn(async move {
        sleep(Duration::from_millis(20)).await;
        wake.notify_one();
    });
    let end = race(&mut code, 1_000, Ok("late")).await;
    assert_eq!(end, End { answer: Ok(None), at: 70, overtaken: Some(70), is_kept: false });
}

#[tokio::test(start_paused = true)]
async fn nothing_races_against_short_compiles_and_stored_code() {
    for (is_long, is_stored, at) in [(false, false, 50), (false, true, 50), (true, true, 0)] {
        let (started, mut code) = (Instant::now(), Code::new(is_long, is_stored, Ok(true)));
        let worker = idle_worker(&mut code, || -> Option<()> { panic!("no worker is wanted") });
        assert_eq!(worker.await, Ok(None));
        assert_eq!((started.elapsed().as_millis(), code.there), (at, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_pays_for_what_ran() {
    let (mut code, charged) = (Code::long(Ok(true)), Mutex::new(None));
    let interpreter = EarlyRun {
        run: std::future::pending::<Made>(),
        is_answer: |_: &bool| true,
        overtaken: |time: Duration| *charged.lock().unwrap() = Some(time.as_millis()),
    };
    let gone = timeout(Duration::from_millis(20), interpreter.race(&mut code)).await;
    assert!(gone.is_err());
    assert_eq!(*charged.lock().unwrap(), Some(20));
}

#[tokio::test(start_paused = true)]
async fn a_compile_whose_caller_has_gone_does_not_wait() {
    let (started, code) = (Instant::now(), Code::long(Ok(true)));
    let Code { long, making, .. } = code;
    drop(long);
    assert_eq!(making.await.unwrap(), Ok(true));
    assert_eq!(started.elapsed().as_millis(), 50);
}
