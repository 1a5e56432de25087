//! JSON that all parsers read alike: no duplicate keys, and no numbers beyond 64 bits, which parsers round.

use std::{collections::HashSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, SeqAccess, Visitor},
};

/// 2^64.
const NUMBER_END: f64 = 18_446_744_073_709_551_616.0;

/// Any such value.
#[derive(Debug)]
pub(crate) struct Plain;

impl<'de> Deserialize<'de> for Plain {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Plain {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self, E> {
        if number.abs() < NUMBER_END { Ok(self) } else { Err(E::custom("a number beyond 64 bits")) }
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self, A::Error> {
        while values.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self, A::Error> {
        let mut keys = HashSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            if !keys.insert(key) {
                return Err(A::Error::custom("a key that is there already"));
            }
            entries.next_value::<Self>()?;
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_there_once_and_numbers_are_exact() {
        let is_plain = |text: &str| serde_json::from_str::<Plain>(text).is_ok();
        for good in [r#"{"a":[{"b":1},{"b":null}],"c":{"a":"a"}}"#, "18446744073709551615", "-0.5", "true"] {
            assert!(is_plain(good), "{good}");
        }
        for bad in
            [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":{},"\u0061":2}}]"#, "18446744073709551616", "[-1e20]", "{"]
        {
            assert!(!is_plain(bad), "{bad}");
        }
    }
}
