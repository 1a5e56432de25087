//! In place of ckb-store and RocksDB: a chain that is always empty, as in the tests.

use std::path::Path;

/// Columns of the database.
pub const COLUMNS: u32 = 1;

/// The database.
#[derive(Debug)]
pub struct RocksDB;

impl RocksDB {
    /// Opens it.
    pub fn open_in<P: AsRef<Path>>(_path: P, _columns: u32) -> Self {
        Self
    }
}

/// The empty store.
#[derive(Debug)]
pub struct ChainDB(());

impl ChainDB {
    /// Creates the store.
    pub fn new(_db: RocksDB, _config: ()) -> Self {
        Self(())
    }
}

/// The verifier's source of data outside the transaction.
pub mod data_loader_wrapper {
    use std::sync::Arc;

    use ckb_traits::{CellDataProvider, ExtensionProvider, HeaderProvider};
    use ckb_types::{
        bytes::Bytes,
        core::HeaderView,
        packed::{self, Byte32, OutPoint},
    };

    /// A loader without data.
    #[derive(Debug)]
    pub struct DataLoaderWrapper<T>(Arc<T>);

    impl<T> Clone for DataLoaderWrapper<T> {
        fn clone(&self) -> Self {
            Self(Arc::clone(&self.0))
        }
    }

    /// Creates a loader.
    pub trait AsDataLoader<T> {
        /// The loader.
        fn as_data_loader(&self) -> DataLoaderWrapper<T>;
    }

    impl<T> AsDataLoader<T> for Arc<T> {
        fn as_data_loader(&self) -> DataLoaderWrapper<T> {
            DataLoaderWrapper(Arc::clone(self))
        }
    }

    impl<T> CellDataProvider for DataLoaderWrapper<T> {
        fn get_cell_data(&self, _out_point: &OutPoint) -> Option<Bytes> {
            None
        }

        fn get_cell_data_hash(&self, _out_point: &OutPoint) -> Option<Byte32> {
            None
        }
    }

    impl<T> HeaderProvider for DataLoaderWrapper<T> {
        fn get_header(&self, _block_hash: &Byte32) -> Option<HeaderView> {
            None
        }
    }

    impl<T> ExtensionProvider for DataLoaderWrapper<T> {
        fn get_block_extension(&self, _block_hash: &Byte32) -> Option<packed::Bytes> {
            None
        }
    }
}
