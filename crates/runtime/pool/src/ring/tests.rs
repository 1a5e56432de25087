//! A model of a ring between two threads: a scheduler tries all or many interleavings. A lost wake-up leaves
//! both asleep, which is detected as a deadlock.

use shuttle::{
    check_dfs, check_random,
    sync::{Arc, Condvar, Mutex, atomic},
    thread,
};

use super::*;

const BYTES: u32 = 1;
const SPACE: u32 = 2;

/// A shared number and its futex.
#[derive(Default)]
struct Number {
    value: atomic::AtomicU32,
    futex: Mutex<()>,
    woken: Condvar,
}

impl Shared for Number {
    fn load(&self) -> u32 {
        self.value.load(Ordering::SeqCst)
    }

    fn store(&self, number: u32) {
        self.value.store(number, Ordering::SeqCst);
    }

    fn bump(&self) {
        self.value.fetch_add(1, Ordering::SeqCst);
    }
}

/// Like `FUTEX_WAIT`: the kernel compares and sleeps in one step.
fn sleep(number: &Number, seen: u32) {
    let futex = number.futex.lock().unwrap();
    if number.load() == seen {
        drop(number.woken.wait(futex).unwrap());
    }
}

/// Like `FUTEX_WAKE`.
fn wake(number: &Number) {
    let _futex = number.futex.lock().unwrap();
    number.woken.notify_one();
}

/// One ring, and a bell at each end.
#[derive(Default)]
struct Model {
    written: Number,
    read: Number,
    reader: [Number; 2],
    writer: [Number; 2],
}

fn bell([rung, waits_for]: &[Number; 2]) -> Bell<'_, Number> {
    Bell { rung, waits_for }
}

impl Model {
    fn positions(&self) -> Positions<'_, Number> {
        Positions { written: &self.written, read: &self.read }
    }

    /// Writes `pieces` pieces, each as long as the ring, so that each must be read before the next one.
    fn write(&self, pieces: usize) {
        let mut written = 0;
        for _ in 0..pieces {
            while self.positions().writable(written) != Ok(RING_BYTES) {
                let is_ready = || self.positions().writable(written) == Ok(RING_BYTES);
                bell(&self.writer).wait(SPACE, is_ready, sleep);
            }
            written = advanced(written, RING_BYTES);
            self.written.store(written);
            bell(&self.reader).ring(BYTES, wake);
        }
    }

    fn read(&self, pieces: usize) {
        let mut read = 0;
        for _ in 0..pieces {
            while self.positions().readable(read) != Ok(RING_BYTES) {
                let is_ready = || self.positions().readable(read) == Ok(RING_BYTES);
                bell(&self.reader).wait(BYTES, is_ready, sleep);
            }
            read = advanced(read, RING_BYTES);
            self.read.store(read);
            bell(&self.writer).ring(SPACE, wake);
        }
    }
}

fn both(pieces: usize) {
    let model = Arc::new(Model::default());
    let writer = model.clone();
    let writes = thread::spawn(move || writer.write(pieces));
    model.read(pieces);
    writes.join().unwrap();
    assert_eq!((model.written.load(), model.read.load()), (model.read.load(), model.written.load()));
}

#[test]
fn no_order_of_two_sides_leaves_them_asleep() {
    check_dfs(|| both(1), None);
    check_random(|| both(3), 5_000);
}

#[test]
fn whoever_waits_hears_that_the_other_end_is_closed() {
    let closes = || {
        let model = Arc::new(Model::default());
        let closed = Arc::new(atomic::AtomicBool::new(false));
        let (other, says) = (model.clone(), closed.clone());
        let closer = thread::spawn(move || {
            says.store(true, Ordering::SeqCst);
            bell(&other.reader).ring_anyway(wake);
        });
        while !closed.load(Ordering::SeqCst) {
            bell(&model.reader).wait(BYTES, || closed.load(Ordering::SeqCst), sleep);
        }
        closer.join().unwrap();
    };
    check_dfs(closes, None);
}

#[test]
fn places_go_around() {
    let far = u32::MAX - 5;
    assert_eq!(distance(far, advanced(far, 10)), Ok(10));
    assert_eq!(distance(far, advanced(advanced(far, RING_BYTES), 1)), Err(Spoiled));
    assert_eq!(offset(advanced(far, 6)), 0);
}
