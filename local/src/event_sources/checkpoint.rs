//! Saves and loads the checkpoints of streams, one file for each table.
//!
//! A file is replaced, but not synced to the disk, because a sync blocks the thread for milliseconds after each batch.
//! A killed process loses no checkpoint. If the machine fails, an earlier checkpoint may be loaded, and the records
//! since then are delivered again.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{Context, Result};
use crate::files;

#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub(super) struct Checkpoint {
    pub(super) shard: String,
    pub(super) sequence_number: String,
}

/// `None`: there is no state directory, and the checkpoint is not saved.
pub(super) struct CheckpointFile(Option<PathBuf>);

impl CheckpointFile {
    pub(super) fn new(directory: Option<&PathBuf>, table: &str) -> Self {
        Self(directory.map(|directory| directory.join(format!("stream-{table}.json"))))
    }

    /// `None`: there is none, or it can't be read.
    pub(super) fn load(&self) -> Option<Checkpoint> {
        let text = std::fs::read(self.0.as_deref()?).ok()?;
        serde_json::from_slice(&text).ok()
    }

    pub(super) fn remove(&self) -> Result<()> {
        self.0.as_deref().map_or(Ok(()), |file| files::remove(file, std::fs::remove_file))
    }

    /// A failure is only logged, because it has no harmful effect: after a restart, the records since the
    /// previous checkpoint are delivered again.
    pub(super) fn save(&self, checkpoint: &Checkpoint) {
        if let Some(Err(error)) = self.0.as_deref().map(|file| write(file, checkpoint)) {
            tracing::warn!(%error, "the stream's checkpoint was not saved");
        }
    }
}

fn write(file: &Path, checkpoint: &Checkpoint) -> Result<()> {
    let text = serde_json::to_vec(checkpoint).context("encoding a checkpoint")?;
    let temporary = file.with_extension("new");
    let written = std::fs::write(&temporary, text).and_then(|()| std::fs::rename(&temporary, file));
    written.context(format_args!("writing {}", file.display()))
}
