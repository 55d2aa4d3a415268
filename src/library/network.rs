//! Network files.

use crate::error::Error;
use rukh_net::NetworkFile;
use rukh_net::discover::{OWN_NETWORK, find_network};
use std::path::Path;

/// A network of lc0 whose file was read. It keeps the file's weights in memory; evaluators have their own.
#[derive(Clone, Debug)]
pub struct Network {
    file: NetworkFile,
}

impl Network {
    /// Reads a network: a file of lc0 (`.pb.gz` or `.pb`), also one that holds an ONNX model.
    ///
    /// # Errors
    /// [`Error::Network`].
    pub fn open(path: impl AsRef<Path>) -> Result<Network, Error> {
        NetworkFile::open(path.as_ref()).map(|file| Network { file }).map_err(in_words)
    }

    /// The network of the project, which is compiled into the program with the feature `embedded`.
    ///
    /// # Errors
    /// [`Error::Network`] without that feature.
    pub fn embedded() -> Result<Network, Error> {
        find_network(OWN_NETWORK, |_| {}).map(|file| Network { file }).map_err(in_words)
    }

    /// What the file is, as `rukh describenet` prints it: one line for each property.
    pub fn describe(&self) -> String {
        rukh_net::describe(&self.file)
    }

    /// Whether this seems to be a Maia network, by its name or shape. These were trained to move as people do, and are
    /// meant to be used without a search.
    pub fn imitates_people(&self) -> bool {
        self.file.imitates_people()
    }

    /// The path of the file; `<embedded, Rukh's own>` if it has none.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The decoded file, for the packages of this project.
    #[doc(hidden)]
    pub fn file(&self) -> &NetworkFile {
        &self.file
    }
}

fn in_words(error: rukh_net::NetworkError) -> Error {
    Error::Network { path: error.path, reason: error.reason.to_string() }
}
