//! The files that go beside a transaction to its worker.

use std::sync::Arc;

use antares_pool::{Sealed, job::VerifyFiles};

use crate::verify::hot_cells::HotCell;

/// The files beside a verification.
#[derive(Clone, Debug)]
pub(crate) struct ExtraFiles {
    pub(crate) document: Option<Arc<Sealed>>,
    pub(crate) libraries: Vec<Arc<Sealed>>,
    pub(crate) beside: Vec<Arc<Sealed>>,
    pub(crate) cells: Vec<Arc<HotCell>>,
}

impl ExtraFiles {
    /// What `work` makes of them.
    pub(crate) fn lease<T>(&self, work: impl FnOnce(&VerifyFiles<'_>) -> T) -> T {
        fn all(files: &[Arc<Sealed>]) -> Vec<&Sealed> {
            files.iter().map(|file| &**file).collect()
        }
        let (libraries, beside) = (all(&self.libraries), all(&self.beside));
        let cells: Vec<&Sealed> = self.cells.iter().map(|cell| &*cell.sealed).collect();
        work(&VerifyFiles {
            document: self.document.as_deref(),
            libraries: &libraries,
            beside: &beside,
            cells: &cells,
        })
    }

    /// Without native code.
    pub(crate) fn interpreted(self) -> Self {
        Self { libraries: Vec::new(), beside: Vec::new(), ..self }
    }
}
