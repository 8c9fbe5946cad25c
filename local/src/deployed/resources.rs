//! Reads the names of a deployed stack's resources.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::error::{Context, Error, Result};

#[derive(Debug)]
pub struct Resources(pub(super) BTreeMap<String, String>);

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Resource {
    logical_resource_id: String,
    physical_resource_id: String,
}

impl Resources {
    pub fn read(path: &Path) -> Result<Self> {
        let doing = format!("reading {}", path.display());
        let text = std::fs::read(path).context(&doing)?;
        let listed: Vec<Resource> = serde_json::from_slice(&text).context(&doing)?;
        let pairs = listed.into_iter().map(|found| (found.logical_resource_id, found.physical_resource_id));
        Ok(Self(pairs.collect()))
    }

    /// `None`: the stack does not have it, for example because of a condition of the template.
    pub fn find(&self, logical_id: &str) -> Option<&str> {
        self.0.get(logical_id).map(String::as_str)
    }

    pub fn get(&self, logical_id: &str) -> Result<&str> {
        self.find(logical_id).ok_or_else(|| Error::new(format!("the stack has no resource {logical_id}")))
    }
}
