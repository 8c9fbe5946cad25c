//! The files of the state directory.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use crate::error::{Context, Result};

/// Creates a directory that only its owner may read, with those above it.
pub fn create_private(directory: &Path) -> io::Result<()> {
    let mut private = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut private, 0o700);
    private.recursive(true).create(directory)
}

/// Reads a file of the state directory. `None`: there is none. A file that can't be read is an error, because its
/// content would be replaced.
pub(crate) fn read_if_exists(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        text => text.map(Some).context(format_args!("reading {}", path.display())),
    }
}

/// Writes a file atomically: readers see the old or the new content, never a part.
pub fn write_atomically(path: &Path, text: &[u8]) -> Result<()> {
    let temporary = path.with_extension("new");
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let write = || {
        let mut file = options.open(&temporary)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().context(format_args!("writing {}", path.display()))
}

/// Removes a file or directory, if it exists.
pub(crate) fn remove<'a>(path: &'a Path, remove: impl FnOnce(&'a Path) -> io::Result<()>) -> Result<()> {
    match remove(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.context(format_args!("removing {}", path.display())),
    }
}
