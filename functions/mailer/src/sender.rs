//! The ways that mails go: by SES in a stack, as files on one machine, where nobody's inbox is to be troubled.

use std::io;
use std::path::{Path, PathBuf};

use crate::mail::Mail;

/// How mails are sent. Clones share what they have.
#[derive(Clone, Debug)]
pub enum Sender {
    /// By SES.
    Ses(crate::ses::Ses),
    /// Into this directory, each a file that any mail program opens: `<time>-<id>.eml`.
    Directory(PathBuf),
    /// Nowhere: the log has the subject of each.
    Nowhere,
}

/// Why a mail did not go.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// SES refused it, or did not answer.
    #[error("SES did not take a mail: {0}")]
    Ses(String),
    /// It can't be written as a file.
    #[error("a mail can't be written as a file: {0}")]
    Directory(io::Error),
}

impl Sender {
    /// Sends a mail, once.
    pub async fn send(&self, mail: &Mail) -> Result<(), SendError> {
        match self {
            Self::Ses(ses) => ses.send(mail).await.map_err(SendError::Ses),
            Self::Directory(directory) => write(directory, mail).await.map_err(SendError::Directory),
            Self::Nowhere => Ok(()),
        }
    }
}

/// Writes a mail so that it is there whole or not at all.
async fn write(directory: &Path, mail: &Mail) -> io::Result<()> {
    tokio::fs::create_dir_all(directory).await?;
    // Not every file system takes a colon.
    let name = format!("{}-{}", mail.at.to_iso().replace(':', "-"), mail.id);
    let beside = directory.join(format!("{name}.new"));
    tokio::fs::write(&beside, &mail.bytes).await?;
    tokio::fs::rename(&beside, directory.join(format!("{name}.eml"))).await
}
