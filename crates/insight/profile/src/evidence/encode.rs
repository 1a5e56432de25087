//! Encoding of evidence, between a worker and its supervisor.

use crate::ProfileError;

use super::{
    Evidence,
    limits::{EVIDENCE_BYTES_MAX, PROGRAMS_MAX, STEPS_MAX, SYSTEM_CALLS_MAX, VMS_MAX},
};

impl Evidence {
    /// Encodes the evidence; omits the instructions if it would exceed the limit.
    ///
    /// # Errors
    /// It exceeds the limit even without instructions.
    pub fn encode(mut self) -> Result<Vec<u8>, ProfileError> {
        loop {
            let bytes = postcard::to_stdvec(&self)?;
            if bytes.len() <= EVIDENCE_BYTES_MAX {
                return Ok(bytes);
            }
            if self.steps.is_empty() {
                return Err(ProfileError::Bytes { found: bytes.len(), max: EVIDENCE_BYTES_MAX });
            }
            self.steps.clear();
        }
    }

    /// Decodes evidence.
    ///
    /// # Errors
    /// The bytes exceed a limit, or are malformed.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProfileError> {
        if bytes.len() > EVIDENCE_BYTES_MAX {
            return Err(ProfileError::Bytes { found: bytes.len(), max: EVIDENCE_BYTES_MAX });
        }
        let evidence: Self = postcard::from_bytes(bytes)?;
        let lengths = [
            ("programs", evidence.programs.len(), PROGRAMS_MAX),
            ("VMs", evidence.vms.len(), VMS_MAX),
            ("system calls", evidence.system_calls.len(), SYSTEM_CALLS_MAX),
            ("pieces of code", evidence.codes.len(), SYSTEM_CALLS_MAX),
            ("instructions", evidence.steps.len(), STEPS_MAX),
        ];
        match lengths.into_iter().find(|(_, found, max)| found > max) {
            Some((what, found, max)) => Err(ProfileError::TooMany { what, found, max }),
            None => Ok(evidence),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::evidence::records::Step;

    #[test]
    fn evidence_survives_and_lies_do_not() {
        let step = Step { program: 0, pc: 4, changed: Some((10, 5)) };
        let evidence = Evidence { steps: vec![step; 3], ..Evidence::default() };
        let bytes = evidence.clone().encode().unwrap();
        assert_eq!(Evidence::decode(&bytes), Ok(evidence.clone()));
        assert!(Evidence::decode(&bytes[..bytes.len() - 1]).is_err());
        let many = Evidence { steps: vec![step; STEPS_MAX + 1], ..evidence };
        let found = Evidence::decode(&many.encode().unwrap());
        let expected = ProfileError::TooMany { what: "instructions", found: STEPS_MAX + 1, max: STEPS_MAX };
        assert_eq!(found, Err(expected));
    }
}
