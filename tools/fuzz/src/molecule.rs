//! Molecule tables, the form of witnesses and arguments: parses them, and serializes them with correct offsets
//! and lengths.

use std::ops::Range;

/// Maximum fields of a table.
const FIELDS_MAX: usize = 64;
/// Bytes of a number.
const NUMBER: usize = 4;

/// A table, or a vector of items of variable size, which has the same encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Content of each field.
    pub fields: Vec<Vec<u8>>,
}

impl Table {
    /// Parses `bytes`, if they are a table with correct lengths.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        if number(bytes, 0)? != bytes.len() {
            return None;
        }
        if bytes.len() == NUMBER {
            return Some(Self::default());
        }
        let first = number(bytes, NUMBER)?;
        let count = (first.checked_sub(NUMBER)? / NUMBER).min(FIELDS_MAX + 1);
        if !first.is_multiple_of(NUMBER) || count == 0 || count > FIELDS_MAX || first > bytes.len() {
            return None;
        }
        let mut places = (1..=count).map(|at| number(bytes, at * NUMBER)).collect::<Option<Vec<_>>>()?;
        places.push(bytes.len());
        let field = |ends: &[usize]| bytes.get(Range { start: ends[0], end: ends[1] }).map(<[u8]>::to_vec);
        Some(Self { fields: places.windows(2).map(field).collect::<Option<_>>()? })
    }

    /// Serializes the table.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let head = NUMBER * (1 + self.fields.len());
        let total = head + self.fields.iter().map(Vec::len).sum::<usize>();
        let mut bytes = Vec::with_capacity(total);
        put(&mut bytes, total);
        let mut at = head;
        for field in &self.fields {
            put(&mut bytes, at);
            at += field.len();
        }
        self.fields.iter().for_each(|field| bytes.extend(field));
        bytes
    }
}

/// Content of a vector of bytes, if its length is correct.
pub(crate) fn read_bytes(vector: &[u8]) -> Option<&[u8]> {
    (number(vector, 0)? == vector.len() - NUMBER).then(|| &vector[NUMBER..])
}

/// Serializes a vector of bytes.
pub(crate) fn to_vector(bytes: &[u8]) -> Vec<u8> {
    let mut vector = Vec::with_capacity(NUMBER + bytes.len());
    put(&mut vector, bytes.len());
    vector.extend(bytes);
    vector
}

fn number(bytes: &[u8], at: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(NUMBER)?)?;
    usize::try_from(u32::from_le_bytes(bytes.try_into().ok()?)).ok()
}

fn put(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_apart_is_put_together() {
        let table = Table { fields: vec![to_vector(b"lock"), Vec::new(), to_vector(b"")] };
        let bytes = table.to_bytes();
        assert_eq!(bytes[..8], [28, 0, 0, 0, 16, 0, 0, 0]);
        assert_eq!(Table::read(&bytes), Some(table.clone()));
        assert_eq!(read_bytes(&table.fields[0]), Some(&b"lock"[..]));
        assert_eq!(Table::read(&[4, 0, 0, 0]), Some(Table::default()));
        for wrong in
            [&bytes[1..], &bytes[..27], b"", b"abc", &[8, 0, 0, 0, 0, 0, 0, 0], &[8, 0, 0, 0, 9, 0, 0, 0]]
        {
            assert_eq!(Table::read(wrong), None, "{wrong:?}");
        }
        assert_eq!(read_bytes(&[1, 0, 0, 0]), None);
    }
}
