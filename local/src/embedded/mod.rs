//! DynamoDB, SQS and S3 on this machine, each a server on a loopback port of its own.
//!
//! What they hold lives in a directory or in memory. Queues are always in memory: after a restart what was queued is
//! gone, as a message of the real SQS may be, and what is due brings it back. Creating tables, queues and buckets in
//! them is [`crate::provision`]'s work.

pub mod dynamodb;
pub mod fault_proxy;
pub mod s3;
pub mod sqs;

use std::path::PathBuf;

use shared::clock::Clock;

use self::dynamodb::DynamoDb;
use self::s3::S3;
use self::sqs::Sqs;
use crate::error::{Error, Result};

/// The access key that the embedded S3 takes, and the others ignore.
pub const ACCESS_KEY: &str = "local";
/// Its secret.
pub const SECRET_KEY: &str = "local-secret";
/// The region that everything here is in.
pub const REGION: &str = "sa-east-1";
/// The account that everything here belongs to.
pub const ACCOUNT: &str = "123456789012";

/// Where the state is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Nowhere: it ends with the process.
    InMemory,
    /// In files under this directory, which is made if it is missing.
    Directory(PathBuf),
}

impl State {
    /// Its directory, if it has one.
    pub fn directory(&self) -> Option<&PathBuf> {
        match self {
            Self::InMemory => None,
            Self::Directory(directory) => Some(directory),
        }
    }
}

/// Base URLs of the three services, without a trailing slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    /// DynamoDB and its streams.
    pub dynamodb_url: String,
    /// SQS.
    pub sqs_url: String,
    /// S3, with buckets in the path.
    pub s3_url: String,
}

/// The three servers. They end when this is dropped.
#[derive(Debug)]
pub struct Embedded {
    dynamodb: DynamoDb,
    sqs: Sqs,
    s3: S3,
}

impl Embedded {
    /// Starts them on free ports of the loopback interface. What S3 signs ends by the clock.
    pub async fn start(state: &State, clock: &Clock) -> Result<Self> {
        if let Some(directory) = state.directory() {
            let text = format!("making the directory {}", directory.display());
            std::fs::create_dir_all(directory).map_err(|e| Error::because(&text, &e))?;
        }
        let s3 = S3::start(state, clock).await?;
        Ok(Self { dynamodb: DynamoDb::start(state)?, sqs: Sqs::start().await?, s3 })
    }

    /// Where they listen.
    pub fn endpoints(&self) -> Endpoints {
        Endpoints {
            dynamodb_url: self.dynamodb.url().to_owned(),
            sqs_url: self.sqs.url(),
            s3_url: self.s3.url(),
        }
    }

    /// Stops them, and returns when their files are closed.
    pub async fn stop(self) {
        self.sqs.stop().await;
        self.s3.stop().await;
        self.dynamodb.stop().await;
    }
}
