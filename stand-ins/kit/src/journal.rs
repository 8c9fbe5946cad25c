use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;

/// The file of a stand-in's books: one line of JSON for each operation that changed them.
///
/// A line has all that one operation changed, and is written before the operation is answered. So a line that a kill
/// cut off belongs to an operation without an answer, and is ignored. The file is not synced: it survives the end of
/// the process, but not that of the machine. Without a path, nothing is written.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    file: Option<(PathBuf, File)>,
    /// Why nothing can be changed any more.
    failure: Option<String>,
}

impl Journal {
    /// Passes each line of the file to `restore`, if the file exists. The caller then rewrites the file, which lacks
    /// the end of a line that was cut off.
    pub(crate) fn read(
        path: &Path,
        mut restore: impl FnMut(usize, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let text = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            text => text.map_err(|error| of_file(path, &error))?,
        };
        // The last line ends without a line break if a kill cut it off.
        let lines = text.split_inclusive(|byte| *byte == b'\n').filter_map(|line| line.strip_suffix(b"\n"));
        for (number, line) in (1..).zip(lines) {
            restore(number, line).map_err(|error| {
                of_file(path, &io::Error::new(error.kind(), format!("line {number}: {error}")))
            })?;
        }
        Ok(())
    }

    /// Replaces the file by one with two lines: the header, and all rows.
    pub(crate) fn rewrite(
        &mut self,
        path: PathBuf,
        header: &impl Serialize,
        rows: &impl Serialize,
    ) -> io::Result<()> {
        let file = write_new(&path, header, rows).map_err(|error| of_file(&path, &error));
        self.file = Some((path, file.inspect_err(|error| self.failure = Some(error.to_string()))?));
        Ok(())
    }

    pub(crate) fn path(&self) -> Option<&PathBuf> {
        self.file.as_ref().map(|(path, _)| path)
    }

    pub(crate) fn append(&mut self, line: &impl Serialize) -> io::Result<()> {
        let Some((_, file)) = &mut self.file else {
            return Ok(());
        };
        // After a failure the file may end with a part of a line, which must stay the last.
        write_line(file, line).inspect_err(|error| self.failure = Some(error.to_string()))
    }

    /// An error says why nothing can be changed any more.
    pub(crate) fn check(&self) -> io::Result<()> {
        self.failure.clone().map_or(Ok(()), |failure| Err(io::Error::other(failure)))
    }

    /// Prevents all further changes, as the end of the process does.
    pub(crate) fn close(&mut self) {
        self.failure = Some("the stand-in stopped".to_owned());
    }
}

fn write_new(path: &Path, header: &impl Serialize, rows: &impl Serialize) -> io::Result<File> {
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    // The books contain secrets, and payers' documents.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&new)?;
    write_line(&mut file, header)?;
    write_line(&mut file, rows)?;
    fs::rename(new, path)?;
    Ok(file)
}

fn write_line(file: &mut File, line: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    file.write_all(&text)
}

fn of_file(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_can_not_be_saved_is_the_last() {
        let path = std::env::temp_dir().join(format!("stand-in-{}-unwritable.jsonl", std::process::id()));
        std::fs::write(&path, "").unwrap();
        let mut journal = Journal { file: Some((path.clone(), File::open(&path).unwrap())), failure: None };
        journal.check().unwrap();
        let failed = journal.append(&1).unwrap_err().to_string();
        assert_eq!(journal.check().unwrap_err().to_string(), failed);
        std::fs::remove_file(path).unwrap();
    }
}
