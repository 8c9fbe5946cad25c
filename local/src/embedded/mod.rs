//! Runs DynamoDB, SQS and S3 on this machine. Each is a server on its own loopback port.
//!
//! DynamoDB and S3 store their state in the state directory. Without a state directory, their state is lost
//! when the process ends. SQS is always in memory, so a restart loses its messages. The scheduler then sends
//! a message again for each due row. [`crate::provision`] creates the tables, queues and buckets.

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

/// The access key id of the embedded services. Only S3 checks it.
pub const ACCESS_KEY: &str = "local";
/// The secret access key of [`ACCESS_KEY`].
pub const SECRET_KEY: &str = "local-secret";
/// The AWS region of the embedded services.
pub const REGION: &str = "sa-east-1";
/// The AWS account id of the embedded services.
pub const ACCOUNT: &str = "123456789012";

/// The location of the embedded services' state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The state is lost when the process ends.
    InMemory,
    /// The state is in files in this directory, which is created if it is missing.
    Directory(PathBuf),
}

impl State {
    /// Returns the state directory. `None`: the state is in memory.
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

/// The three servers. Dropping this stops them.
#[derive(Debug)]
pub struct Embedded {
    dynamodb: DynamoDb,
    sqs: Sqs,
    s3: S3,
}

impl Embedded {
    /// Starts the servers on free ports of the loopback interface. `clock` decides when presigned URLs of S3
    /// expire.
    pub async fn start(state: &State, clock: &Clock) -> Result<Self> {
        if let Some(directory) = state.directory() {
            let text = format!("creating the directory {}", directory.display());
            std::fs::create_dir_all(directory).map_err(|e| Error::because(&text, &e))?;
        }
        let s3 = S3::start(state, clock).await?;
        Ok(Self { dynamodb: DynamoDb::start(state)?, sqs: Sqs::start().await?, s3 })
    }

    /// Returns the base URLs of the servers.
    pub fn endpoints(&self) -> Endpoints {
        Endpoints {
            dynamodb_url: self.dynamodb.url().to_owned(),
            sqs_url: self.sqs.url(),
            s3_url: self.s3.url(),
        }
    }

    /// Stops the servers. Returns when their files are closed.
    pub async fn stop(self) {
        self.sqs.stop().await;
        self.s3.stop().await;
        self.dynamodb.stop().await;
    }
}
