//! The folder of the training data.

use crate::cli::error::CliError;
use crate::cli::selfplay_args::SelfplayArgs;
use crate::selfplay::training::store::Store;
use rand::RngExt;
use rukh_base::cache_folder;
use std::path::PathBuf;

/// The characters in the name of a folder that the user did not name.
const RANDOM_CHARACTERS: usize = 12;

/// The store that the flags ask for.
///
/// # Errors
/// The folder cannot be made, or the user has no cache folder.
pub(super) fn open(arguments: &SelfplayArgs) -> Result<Store, CliError> {
    let folder = arguments.training_dir.clone().or_else(new_folder);
    let folder =
        folder.ok_or("there is no cache folder for the training data; name one with --training-dir")?;
    let chunks_per_archive = Some(u64::from(arguments.training_tar)).filter(|&chunks| chunks > 0);
    Ok(Store::new(&folder, chunks_per_archive)?)
}

/// A folder of its own for each run, named as lc0 names it.
fn new_folder() -> Option<PathBuf> {
    let mut random = rand::rng();
    let characters = (0..RANDOM_CHARACTERS).map(|_| char::from(random.random_range(b'a'..=b'z')));
    Some(cache_folder::folder()?.join(format!("data-{}", characters.collect::<String>())))
}
