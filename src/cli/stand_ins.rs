//! What other modules will bring; gone when they do.

pub(super) mod factory {
    use crate::backend::{Backend, BackendError};
    use crate::options::Options;
    use std::sync::Arc;

    pub(crate) fn create(options: &Options) -> Result<Arc<dyn Backend>, BackendError> {
        Err(BackendError::Unknown { name: options.backend.clone(), known: String::new() })
    }
}

pub(super) mod net {
    use crate::net::{NetworkError, NetworkFile};

    pub(crate) fn find_network(location: &str) -> Result<NetworkFile, NetworkError> {
        NetworkFile::open(std::path::Path::new(location))
    }

    pub(crate) fn describe(_file: &NetworkFile) -> String {
        "\nGeneral\n~~~~~~~\n         Minimal Lc0 version: v0.30.0\n".to_owned()
    }
}
