//! Minimises a finding, or its difference from the original: removes parts as long as the finding is the
//! same.

use crate::FuzzInput;

/// Maximum runs for one finding.
const RUNS_MAX: usize = 3000;

/// Minimises `fields` while `is_same` is true. With `given`, bytes become those of `given`; without it, bytes
/// become fewer and zero.
pub(crate) fn minimise<E>(
    fields: FuzzInput,
    given: Option<&FuzzInput>,
    mut is_same: impl FnMut(&FuzzInput) -> Result<bool, E>,
) -> Result<FuzzInput, E> {
    let mut smaller = Smaller { fields, runs: 0, is_same: &mut is_same };
    for field in 0..smaller.fields.0.len() {
        let whole = given.map_or(&[][..], |given| &given.0[field]);
        smaller.try_field(field, whole.to_vec())?;
    }
    for field in 0..smaller.fields.0.len() {
        match given {
            None => {
                smaller.cut(field)?;
                let zeros = vec![0; smaller.fields.0[field].len()];
                smaller.restore(field, &zeros)?;
            }
            Some(given) => smaller.restore(field, &given.0[field])?,
        }
    }
    Ok(smaller.fields)
}

struct Smaller<'a, F> {
    fields: FuzzInput,
    runs: usize,
    is_same: &'a mut F,
}

impl<E, F: FnMut(&FuzzInput) -> Result<bool, E>> Smaller<'_, F> {
    /// Replaces the bytes of a field if they change and the finding remains the same.
    fn try_field(&mut self, field: usize, bytes: Vec<u8>) -> Result<bool, E> {
        if self.runs == RUNS_MAX || self.fields.0[field] == bytes {
            return Ok(false);
        }
        self.runs += 1;
        let mut tried = self.fields.clone();
        tried.0[field] = bytes;
        let is_same = (self.is_same)(&tried)?;
        if is_same {
            self.fields = tried;
        }
        Ok(is_same)
    }

    /// Removes pieces, large ones first.
    fn cut(&mut self, field: usize) -> Result<(), E> {
        let mut piece = self.fields.0[field].len().div_ceil(2);
        while piece > 0 {
            let mut at = 0;
            while at < self.fields.0[field].len() {
                let mut bytes = self.fields.0[field].clone();
                bytes.drain(at..(at + piece).min(bytes.len()));
                if !self.try_field(field, bytes)? {
                    at += piece;
                }
            }
            piece /= 2;
        }
        Ok(())
    }

    /// Restores pieces from `given`, if the lengths are equal.
    fn restore(&mut self, field: usize, given: &[u8]) -> Result<(), E> {
        let length = self.fields.0[field].len();
        if given.len() != length {
            return Ok(());
        }
        let mut piece = length.div_ceil(2);
        while piece > 0 {
            for at in (0..length).step_by(piece) {
                let mut bytes = self.fields.0[field].clone();
                let end = (at + piece).min(length);
                bytes[at..end].copy_from_slice(&given[at..end]);
                self.try_field(field, bytes)?;
            }
            piece /= 2;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn what_does_not_matter_goes_and_what_does_stays() {
        let fields = FuzzInput(vec![b"some bytes with an X in them".to_vec(), b"others".to_vec()]);
        let has_x =
            |fields: &FuzzInput| Ok::<_, Infallible>(fields.0[0].len() > 2 && fields.0[0].contains(&b'X'));
        let small = minimise(fields, None, has_x).unwrap();
        assert_eq!(small, FuzzInput(vec![vec![0, 0, b'X'], Vec::new()]));
    }

    #[test]
    fn what_differs_becomes_little() {
        let given = FuzzInput(vec![b"as it was".to_vec(), b"this too".to_vec()]);
        let fields = FuzzInput(vec![b"ES IT XXS".to_vec(), b"THIS".to_vec()]);
        let has_x = |fields: &FuzzInput| Ok::<_, Infallible>(fields.0[0].contains(&b'X'));
        let small = minimise(fields, Some(&given), has_x).unwrap();
        assert_eq!(small, FuzzInput(vec![b"as it wXs".to_vec(), b"this too".to_vec()]));
    }
}
