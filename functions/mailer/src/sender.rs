//! The ways to send an email. A stack sends by SES. The service on one machine writes files, so that
//! development sends no emails to real inboxes.

use std::io;
use std::path::{Path, PathBuf};

use crate::message::EmailMessage;

/// A way to send emails. Clones share the SES client.
#[derive(Clone, Debug)]
pub enum EmailSender {
    Ses(crate::ses::Ses),
    /// Writes each email to this directory, as a file `<time>-<id>.eml`, which email programs can open.
    Directory(PathBuf),
    /// Sends nothing: for the service on one machine without a directory for emails. The mailer still logs
    /// the subject, as for every email.
    Nowhere,
}

impl EmailSender {
    /// Sends an email, without retries.
    pub async fn send(&self, message: &EmailMessage) -> Result<(), String> {
        match self {
            Self::Ses(ses) => {
                ses.send(message).await.map_err(|error| format!("SES did not accept an email: {error}"))
            }
            Self::Directory(directory) => write(directory, message)
                .await
                .map_err(|error| format!("an email can't be written as a file: {error}")),
            Self::Nowhere => Ok(()),
        }
    }
}

/// Writes an email to a file atomically: under a temporary name first, then renamed.
async fn write(directory: &Path, message: &EmailMessage) -> io::Result<()> {
    tokio::fs::create_dir_all(directory).await?;
    // Some file systems do not allow a colon in a file name.
    let name = format!("{}-{}", message.at.to_iso().replace(':', "-"), message.id);
    let temporary = directory.join(format!("{name}.new"));
    tokio::fs::write(&temporary, &message.bytes).await?;
    tokio::fs::rename(&temporary, directory.join(format!("{name}.eml"))).await
}
