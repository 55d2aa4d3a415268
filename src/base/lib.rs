//! What all parts of Rukh use.
//!
//! | module | what it holds |
//! |---|---|
//! | [`version`] | the version of the program |
//! | [`quote`] | user input, shortened and escaped for error messages |
//! | [`cache_folder`] | the folder for what can be made again |
//! | [`processor`] | the name of the processor |
//! | [`program`] | the file that starts this program |
//! | [`lc0_folders`] | where lc0 looks for a user's files |
//! | [`word_wrap`] | text broken into lines |
//! | [`decompress`] | reads files that may be compressed |
//! | [`encoding`] | the encodings of texts |
//! | [`limited_lines`] | lines of a limited length |
//! | [`replace_file`] | writes a whole file, and puts it in the place of an old one |
//! | [`distinct_files`] | refuses a command that would write one of its files over another |
//! | [`regular_file`] | reads files that must be regular and not too large |
//! | [`os_error`] | errors of the operating system, in words for the user |
//! | [`available_memory`] | how much memory this process can still get |
//! | [`zeroed_array`] | large arrays in memory maps of their own |
//! | [`progress`] | what the user is told while a backend is prepared |
//! | [`parallel`] | large arrays that several threads fill |
//! | [`cache_line`] | loads memory into the processor's cache before it is read |
//! | [`sync`] | atomics, locks and threads: those of `std`, or a model checker's |

pub mod available_memory;
pub mod cache_folder;
pub mod cache_line;
pub mod decompress;
pub mod distinct_files;
pub mod encoding;
pub mod lc0_folders;
pub mod limited_lines;
pub mod os_error;
pub mod parallel;
pub mod processor;
pub mod program;
pub mod progress;
pub mod quote;
pub mod regular_file;
pub mod replace_file;
pub mod sync;
pub mod version;
pub mod word_wrap;
pub mod zeroed_array;
