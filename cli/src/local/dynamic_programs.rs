//! Hot programs that are not a whole cell of a transaction: code loaded at run time, slices for exec or
//! spawn, code from witnesses. They are stored with the programs that ran with them, for later runs.

use antares_abi::{CompileOptions, Sha256Digest};

use crate::{limits::DYNAMIC_PROGRAMS_MAX, local::code_cache::CodeFolder};

/// Suffix of a file that lists the dynamic programs of a program.
const LIST: &str = "beside";

/// Suffix of a file with a dynamic program.
const PROGRAM: &str = "program";

impl CodeFolder {
    /// The dynamic programs of `elf`, in the order of their first runs.
    pub(crate) fn dynamic_programs(&self, elf: Sha256Digest, options: CompileOptions) -> Vec<Vec<u8>> {
        let program = |digest: Sha256Digest| self.get_as(PROGRAM, program_key(digest));
        self.list(elf, options).into_iter().filter_map(program).collect()
    }

    /// Stores a dynamic program of `elf`; removes the oldest beyond the limit.
    pub(crate) fn put_dynamic_program(&self, elf: Sha256Digest, options: CompileOptions, program: &[u8]) {
        let (digest, mut list) = (Sha256Digest::of(program), self.list(elf, options));
        if list.contains(&digest) {
            return;
        }
        list.push(digest);
        list.drain(..list.len().saturating_sub(DYNAMIC_PROGRAMS_MAX));
        let list = list.iter().flat_map(|digest| digest.0).collect::<Vec<u8>>();
        self.put_as(PROGRAM, program_key(digest), program);
        self.put_as(LIST, list_key(elf, options), &list);
    }

    fn list(&self, elf: Sha256Digest, options: CompileOptions) -> Vec<Sha256Digest> {
        let list = self.get_as(LIST, list_key(elf, options)).unwrap_or_default();
        list.as_chunks().0.iter().take(DYNAMIC_PROGRAMS_MAX).map(|digest| Sha256Digest(*digest)).collect()
    }
}

fn program_key(program: Sha256Digest) -> Sha256Digest {
    Sha256Digest::of(&[b"beside-program".as_slice(), &program.0].concat())
}

fn list_key(elf: Sha256Digest, options: CompileOptions) -> Sha256Digest {
    let CompileOptions { vm_version, isa } = options;
    Sha256Digest::of(&[b"beside-list".as_slice(), &elf.0, &vm_version.to_le_bytes(), &[isa.0]].concat())
}

#[cfg(test)]
mod tests {
    use antares_abi::Isa;

    use super::*;

    #[test]
    fn few_are_kept_and_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let kept = CodeFolder::at(folder.path());
        let options = CompileOptions { vm_version: 2, isa: Isa(3) };
        let elf = Sha256Digest::of(b"elf");
        assert!(kept.dynamic_programs(elf, options).is_empty());
        for number in 0..=u8::try_from(DYNAMIC_PROGRAMS_MAX).unwrap() {
            kept.put_dynamic_program(elf, options, &[number; 9]);
            kept.put_dynamic_program(elf, options, &[number; 9]);
        }
        let found = kept.dynamic_programs(elf, options);
        assert_eq!((found.len(), &found[0]), (DYNAMIC_PROGRAMS_MAX, &vec![1; 9]));
        assert!(kept.dynamic_programs(elf, CompileOptions { vm_version: 1, ..options }).is_empty());
        assert!(kept.dynamic_programs(Sha256Digest::of(b"other"), options).is_empty());
    }
}
