//! Native frames that a `longjmp` may return to: those that called `setjmp` and have not ended.

/// Maximum number of marks. Further frames cannot be returned to natively.
const MARKS_MAX: usize = 40;

/// A location in a frame on the native stack.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    /// Guest pc and guest `sp` of the location.
    pub(crate) pc: u64,
    pub(crate) sp: u64,
    /// Native stack pointer in the call of `HostTable::mark`, and the return address of that call.
    pub(crate) stack_pointer: u64,
    pub(crate) back: u64,
    /// Callee-saved registers: rbx, rbp, r12 to r15.
    pub(crate) kept: [u64; 6],
}

/// The marks of one native stack, outermost first. All zeros means no marks.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Marks {
    count: usize,
    marks: [Mark; MARKS_MAX],
}

impl Marks {
    /// Adds a mark. Removes marks of frames that ended without notice, and replaces a mark of the same
    /// location.
    pub(crate) fn add(&mut self, mark: Mark) {
        while self.last().is_some_and(|last| last.stack_pointer < mark.stack_pointer) {
            self.count -= 1;
        }
        let is_same = |known: &Mark| (known.stack_pointer, known.pc) == (mark.stack_pointer, mark.pc);
        if let Some(known) = self.marks[..self.count].iter_mut().rev().find(|known| is_same(known)) {
            *known = mark;
        } else if let Some(free) = self.marks.get_mut(self.count) {
            *free = mark;
            self.count += 1;
        }
    }

    /// Removes the marks of the frame whose native stack pointer in a call is `stack_pointer`, and of its
    /// callees.
    pub(crate) fn remove(&mut self, stack_pointer: u64) {
        while self.last().is_some_and(|last| last.stack_pointer <= stack_pointer) {
            self.count -= 1;
        }
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// The innermost mark with this guest pc and `sp`. Removes the marks of frames further in, since they
    /// end.
    pub(crate) fn unwind(&mut self, pc: u64, sp: u64) -> Option<Mark> {
        let marks = self.marks[..self.count].iter();
        let found = marks.rev().find(|mark| (mark.pc, mark.sp) == (pc, sp)).copied()?;
        while self.last().is_some_and(|last| last.stack_pointer < found.stack_pointer) {
            self.count -= 1;
        }
        Some(found)
    }

    fn last(&self) -> Option<&Mark> {
        self.marks[..self.count].last()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(pc: u64, sp: u64, stack_pointer: u64) -> Mark {
        Mark { pc, sp, stack_pointer, back: 0, kept: [0; 6] }
    }

    fn marks(all: &[Mark]) -> Marks {
        let mut marks = Marks { count: 0, marks: [mark(0, 0, 0); MARKS_MAX] };
        all.iter().for_each(|one| marks.add(*one));
        marks
    }

    #[test]
    fn frames_that_are_gone_are_never_found() {
        let mut known = marks(&[mark(1, 100, 900), mark(2, 90, 800), mark(3, 90, 800), mark(4, 80, 700)]);
        assert!(known.unwind(4, 81).is_none() && known.unwind(5, 80).is_none());
        assert_eq!(known.unwind(2, 90).unwrap().stack_pointer, 800);
        assert!(known.unwind(4, 80).is_none(), "it was called from the frame that goes on");
        assert!(known.unwind(3, 90).is_some(), "another place of the same frame");
        known.remove(800);
        assert!(known.unwind(2, 90).is_none() && known.unwind(1, 100).is_some());
        known.add(mark(7, 110, 1000));
        assert!(known.unwind(1, 100).is_none());
        known.clear();
        assert!(known.unwind(7, 110).is_none());
    }

    #[test]
    fn no_more_are_kept_than_there_is_room_for() {
        let all: Vec<Mark> = (0..2 * MARKS_MAX as u64).map(|at| mark(at, at, 10_000 - at)).collect();
        let mut known = marks(&all);
        assert!(known.unwind(MARKS_MAX as u64, MARKS_MAX as u64).is_none());
        assert!(known.unwind(0, 0).is_some());
        assert_eq!(known.count, 1);
    }

    #[test]
    fn a_place_is_marked_once() {
        let mut known = marks(&[mark(1, 100, 900); 3]);
        known.add(mark(1, 96, 900));
        assert_eq!(known.count, 1);
        assert!(known.unwind(1, 100).is_none() && known.unwind(1, 96).is_some());
    }
}
