//! The embedded S3: s3s over a directory. It checks signatures, so that a presigned URL that AWS would refuse is
//! refused here. Without a state directory it keeps its objects in a temporary one.

use std::path::PathBuf;

use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;

use super::{ACCESS_KEY, SECRET_KEY, State};
use crate::error::{Error, Result};
use crate::http::{self, Server};

/// A running S3.
#[derive(Debug)]
pub struct S3 {
    server: Server,
    _scratch: Option<Scratch>,
}

/// A directory that goes when this does.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl S3 {
    /// Starts it on a free loopback port.
    pub async fn start(state: &State) -> Result<Self> {
        let (root, scratch) = match state {
            State::Directory(directory) => (directory.join("s3"), None),
            State::InMemory => {
                let root = std::env::temp_dir().join(format!("s3-{}", uuid::Uuid::new_v4()));
                (root.clone(), Some(Scratch(root)))
            }
        };
        let io = |e: std::io::Error| Error::because("starting S3", &e);
        std::fs::create_dir_all(&root).map_err(io)?;
        let files = FileSystem::new(root).map_err(|e| Error::new(format!("starting S3: {e:?}")))?;
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY, SECRET_KEY));
        let service = builder.build();
        let listener = http::loopback().await.map_err(io)?;
        let server = Server::start(listener, move |_| service.clone()).map_err(io)?;
        Ok(Self { server, _scratch: scratch })
    }

    /// Its base URL.
    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Stops it.
    pub async fn stop(self) {
        self.server.stop().await;
    }
}
