//! Runs DynamoDB, SQS and S3 on this machine, so that `cargo run` and the tests need Rust alone. Each is a server on
//! its own loopback port.
//!
//! DynamoDB and S3 store their state in the state directory. Without a state directory, their state is lost when
//! the process ends. The messages of SQS are always in memory. `provision` creates the tables, queues and buckets.

pub mod dynamodb;
pub mod s3;
pub mod sqs;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use shared::clock::Clock;
use tokio::net::TcpListener;

use self::dynamodb::{Database, DynamoDb};
use self::s3::S3;
use crate::error::{Context, Error, Result};
use crate::guard::AllowedHost;
use crate::http::Server;

/// Only S3 checks it.
pub const ACCESS_KEY: &str = "local";
/// The secret access key of [`ACCESS_KEY`].
pub const SECRET_KEY: &str = "local-secret";
pub const REGION: &str = "sa-east-1";
pub const ACCOUNT: &str = "123456789012";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// The state is lost when the process ends.
    InMemory,
    Directory(PathBuf),
}

impl State {
    /// `None`: the state is in memory.
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
    pub dynamodb_url: String,
    pub sqs_url: String,
    /// S3, with buckets in the path.
    pub s3_url: String,
}

impl Endpoints {
    pub(crate) fn at_host(&self, host: &str) -> Result<Self> {
        let moved = |url: &str| match url.rsplit_once(':') {
            Some((_, port)) => Ok(format!("http://{host}:{port}")),
            None => Err(Error::new(format!("the URL {url} has no port"))),
        };
        Ok(Self {
            dynamodb_url: moved(&self.dynamodb_url)?,
            sqs_url: moved(&self.sqs_url)?,
            s3_url: moved(&self.s3_url)?,
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Listen {
    #[default]
    AnyPort,
    Fixed(SocketAddr),
}

impl Listen {
    /// Listens on the port with this number: 0 for DynamoDB, 1 for SQS, 2 for S3.
    async fn bind(self, number: u16) -> Result<TcpListener> {
        let address = match self {
            Self::AnyPort => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            Self::Fixed(first) => {
                let port = first.port().checked_add(number).filter(|port| *port >= number);
                let port = port.ok_or_else(|| Error::new("the last port must be at most 65535"))?;
                SocketAddr::new(first.ip(), port)
            }
        };
        TcpListener::bind(address).await.context(format_args!("listening on {address}"))
    }
}

/// Dropping this stops them.
#[derive(Debug)]
pub struct Embedded {
    dynamodb: DynamoDb,
    sqs: Server,
    s3: S3,
}

impl Embedded {
    /// `allowed`: the host names that requests may have, besides `localhost` and addresses.
    pub async fn start(
        state: &State,
        listen: Listen,
        allowed: &[AllowedHost],
        clock: &Clock,
    ) -> Result<Self> {
        let hosts = Some(Arc::from(allowed));
        if let Some(directory) = state.directory() {
            let text = format!("creating the directory {}", directory.display());
            std::fs::create_dir_all(directory).context(&text)?;
        }
        let dynamodb = DynamoDb::start(state, listen.bind(0).await?, &hosts, clock)?;
        let sqs = sqs::start(listen.bind(1).await?, &hosts, clock)?;
        let s3 = S3::start(state, listen.bind(2).await?, &hosts, clock)?;
        Ok(Self { dynamodb, sqs, s3 })
    }

    pub fn endpoints(&self) -> Endpoints {
        Endpoints {
            dynamodb_url: self.dynamodb.url().to_owned(),
            sqs_url: self.sqs.url(),
            s3_url: self.s3.url(),
        }
    }

    pub fn database(&self) -> Database {
        self.dynamodb.database()
    }

    pub async fn stop(self) {
        self.sqs.stop().await;
        self.s3.stop().await;
        self.dynamodb.stop().await;
    }
}
