//! Encoding of profiles, between a worker and its supervisor and in files for `antares profile diff`.

use serde::{Deserialize, Serialize};

use crate::{
    Frame, Node, NodeId, Profile, ProfiledProgram,
    limits::{NODES_MAX, PROFILE_BYTES_MAX, PROGRAMS_MAX},
};

/// Magic of every encoded profile; the last byte is the version of the format.
const MAGIC: &[u8; 8] = b"antprof\x01";

/// Why a profile or evidence cannot be decoded or encoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The magic is wrong.
    #[error("this is not an Antares profile: it does not begin with its magic")]
    Magic,
    /// Too many bytes.
    #[error("{found} bytes are over the limit of {max}")]
    Bytes {
        /// Bytes found.
        found: usize,
        /// Bytes allowed.
        max: usize,
    },
    /// The content does not decode.
    #[error("it is malformed: {0}")]
    Malformed(String),
    /// A list exceeds its limit.
    #[error("{found} {what} are over the limit of {max}")]
    TooMany {
        /// Name of the list.
        what: &'static str,
        /// Number found.
        found: usize,
        /// Number allowed.
        max: usize,
    },
    /// A node has an invalid reference or is a duplicate.
    #[error("node {index} of the profile {fault}")]
    Node {
        /// Index of the node.
        index: usize,
        /// Description of the problem.
        fault: &'static str,
    },
}

impl From<postcard::Error> for ProfileError {
    fn from(error: postcard::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

#[derive(Serialize, Deserialize)]
struct Content {
    programs: Vec<ProfiledProgram>,
    nodes: Vec<Node>,
}

impl Profile {
    /// Encodes the profile. Equal profiles in [canonical](Profile::canonical) order have equal bytes.
    ///
    /// # Errors
    /// [`ProfileError::Bytes`] beyond [`PROFILE_BYTES_MAX`].
    pub fn encode(&self) -> Result<Vec<u8>, ProfileError> {
        let content = Content { programs: self.programs.clone(), nodes: self.nodes.clone() };
        let bytes = postcard::to_extend(&content, MAGIC.to_vec())?;
        match bytes.len() {
            found if found > PROFILE_BYTES_MAX => Err(ProfileError::Bytes { found, max: PROFILE_BYTES_MAX }),
            _ => Ok(bytes),
        }
    }

    /// Decodes a profile.
    ///
    /// # Errors
    /// The first problem, and where it is.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProfileError> {
        if bytes.len() > PROFILE_BYTES_MAX {
            return Err(ProfileError::Bytes { found: bytes.len(), max: PROFILE_BYTES_MAX });
        }
        let content = bytes.strip_prefix(MAGIC).ok_or(ProfileError::Magic)?;
        let (content, rest): (Content, _) = postcard::take_from_bytes(content)?;
        if !rest.is_empty() {
            return Err(ProfileError::Malformed(format!("{} bytes follow it", rest.len())));
        }
        let mut profile = Self::default();
        for program in &content.programs {
            let before = profile.programs.len();
            if profile.program(program).is_none() || profile.programs.len() == before {
                let found = content.programs.len();
                return Err(ProfileError::TooMany { what: "different programs", found, max: PROGRAMS_MAX });
            }
        }
        // One more than the limit, for the node of costs beyond the limit.
        if content.nodes.len() > NODES_MAX + 1 {
            let found = content.nodes.len();
            return Err(ProfileError::TooMany { what: "nodes", found, max: NODES_MAX });
        }
        profile.nodes.reserve(content.nodes.len());
        for (index, node) in content.nodes.iter().enumerate() {
            profile.take(index, node)?;
        }
        Ok(profile)
    }

    fn take(&mut self, index: usize, node: &Node) -> Result<(), ProfileError> {
        let fault = |fault| Err(ProfileError::Node { index, fault });
        if node.parent.is_some_and(|parent| parent.0 as usize >= index) {
            return fault("stands before its parent");
        }
        if let Frame::Code { program, .. } = node.frame
            && program.0 as usize >= self.programs.len()
        {
            return fault("is in a program that is not there");
        }
        let id = NodeId(u32::try_from(index).unwrap_or(u32::MAX));
        if self.index.insert((node.parent, node.frame), id).is_some() {
            return fault("is there twice");
        }
        self.nodes.push(*node);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ProgramId, Value};

    fn bytes(programs: Vec<ProfiledProgram>, nodes: Vec<Node>) -> Vec<u8> {
        postcard::to_extend(&Content { programs, nodes }, MAGIC.to_vec()).unwrap()
    }

    fn node(parent: Option<u32>, frame: Frame) -> Node {
        Node { parent: parent.map(NodeId), frame, value: Value::cycles(1) }
    }

    #[test]
    fn profiles_come_back_as_they_were() {
        let mut profile = Profile::default();
        let program = profile.program(&ProfiledProgram { elf: None, vm_version: 2, isa: 3 }).unwrap();
        profile.add(&[Frame::Code { program, pc: 8 }, Frame::Syscall { number: 2177 }], Value::cycles(9));
        let back = Profile::decode(&profile.encode().unwrap()).unwrap();
        assert_eq!(back, profile);
        assert_eq!(back.sum(), Value::cycles(9));
    }

    #[test]
    fn hostile_bytes_are_refused_with_their_place() {
        assert_eq!(Profile::decode(b"antprof\x02").unwrap_err(), ProfileError::Magic);
        let early = bytes(Vec::new(), vec![node(Some(0), Frame::Load)]);
        let error = Profile::decode(&early).unwrap_err();
        assert_eq!(error, ProfileError::Node { index: 0, fault: "stands before its parent" });
        let foreign = bytes(Vec::new(), vec![node(None, Frame::Code { program: ProgramId(0), pc: 0 })]);
        assert!(matches!(Profile::decode(&foreign), Err(ProfileError::Node { index: 0, .. })));
        let twice = bytes(Vec::new(), vec![node(None, Frame::Load), node(None, Frame::Load)]);
        let error = Profile::decode(&twice).unwrap_err();
        assert_eq!(error, ProfileError::Node { index: 1, fault: "is there twice" });
        let mut long = bytes(Vec::new(), Vec::new());
        long.push(0);
        assert!(matches!(Profile::decode(&long), Err(ProfileError::Malformed { .. })));
        // A length far beyond the available bytes.
        let lying = [MAGIC.as_slice(), &[0, 0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
        assert!(matches!(Profile::decode(&lying), Err(ProfileError::Malformed { .. })));
        let same = ProfiledProgram { elf: None, vm_version: 2, isa: 3 };
        let programs = bytes(vec![same, same], Vec::new());
        assert!(matches!(Profile::decode(&programs), Err(ProfileError::TooMany { .. })));
    }
}
