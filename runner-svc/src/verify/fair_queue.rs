//! Background work of tenants, who take turns. When the queue is full, the tenant with the most work loses
//! some: a tenant that brings work without end loses its own.

use std::collections::VecDeque;

use antares_serve::Namespace;
use parking_lot::Mutex;

/// The queue of one worker.
pub(crate) struct FairQueue<T> {
    waiting_max: usize,
    line: Mutex<Line<T>>,
}

struct Line<T> {
    /// Whose turn is next first; none is empty.
    tenants: VecDeque<(Namespace, VecDeque<T>)>,
    is_worked: bool,
}

/// What became of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pushed {
    /// It is in the queue.
    pub(crate) is_in: bool,
    /// Nobody works: the caller must, until [`FairQueue::next`] gives nothing.
    pub(crate) is_idle: bool,
}

impl<T> FairQueue<T> {
    pub(crate) fn new(waiting_max: usize) -> Self {
        Self { waiting_max, line: Mutex::new(Line { tenants: VecDeque::new(), is_worked: false }) }
    }

    /// Adds `work`, in the place of the latest of another tenant that has more than this one if the queue is
    /// full.
    pub(crate) fn push(&self, namespace: Namespace, work: T) -> Pushed {
        let mut line = self.line.lock();
        let own = line.tenants.iter().find(|(of, _)| *of == namespace).map_or(0, |(_, works)| works.len());
        let all: usize = line.tenants.iter().map(|(_, works)| works.len()).sum();
        if all >= self.waiting_max {
            let most = line.tenants.iter_mut().max_by_key(|(_, works)| works.len());
            match most.filter(|(_, works)| works.len() > own + 1) {
                Some((_, works)) => drop(works.pop_back()),
                None => return Pushed { is_in: false, is_idle: false },
            }
        }
        match line.tenants.iter_mut().find(|(of, _)| *of == namespace) {
            Some((_, works)) => works.push_back(work),
            None => line.tenants.push_back((namespace, VecDeque::from([work]))),
        }
        Pushed { is_in: true, is_idle: !std::mem::replace(&mut line.is_worked, true) }
    }

    /// The work that is next; none when the queue is empty, and then nobody works.
    pub(crate) fn next(&self) -> Option<T> {
        let mut line = self.line.lock();
        let next = line.tenants.pop_front().and_then(|(namespace, mut works)| {
            let work = works.pop_front();
            if !works.is_empty() {
                line.tenants.push_back((namespace, works));
            }
            work
        });
        line.is_worked = next.is_some();
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_waits_for_itself() {
        let queue = FairQueue::new(4);
        let push = |tenant: u8, work: u32| queue.push([tenant; 32], work);
        assert_eq!(push(1, 0), Pushed { is_in: true, is_idle: true });
        let pushed: Vec<_> = (1..10).map(|work| push(1, work)).collect();
        assert!(pushed.iter().all(|pushed| !pushed.is_idle));
        assert_eq!(pushed.iter().filter(|pushed| pushed.is_in).count(), 3);
        assert!(push(2, 20).is_in && push(2, 21).is_in);
        assert!(!push(2, 22).is_in && !push(1, 10).is_in, "each has half");
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, [0, 20, 1, 21]);
        assert!(push(3, 30).is_idle, "somebody has to work again");
    }
}
