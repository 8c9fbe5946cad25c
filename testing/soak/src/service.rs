//! The service as a process in a directory of its own, which can be killed and started again.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, watch};

use crate::{Error, Result};

/// How long a start may take.
const START_TIME: Duration = Duration::from_secs(90);

const READY_FILE: &str = "ready.json";
const LOG_FILE: &str = "service.log";

/// The service.
pub struct Service {
    program: PathBuf,
    /// The directory of its state and its log.
    pub directory: PathBuf,
    port: u16,
    /// The program's further arguments.
    arguments: Vec<String>,
    child: Mutex<Option<Child>>,
    is_up: watch::Sender<bool>,
}

impl Service {
    /// Prepares the service on a free port. [`Self::start`] starts it.
    ///
    /// # Errors
    ///
    /// When the directory can't be created.
    pub fn new(program: PathBuf, directory: PathBuf, arguments: Vec<String>) -> Result<Self> {
        std::fs::create_dir_all(&directory).map_err(Error::of("creating the directory"))?;
        // Every start uses the same port, so that URLs stay the same. The system gives the next program that
        // asks for any port another one.
        let listener =
            std::net::TcpListener::bind("127.0.0.1:0").map_err(Error::of("finding a free port"))?;
        let port = listener.local_addr().map_err(Error::of("finding a free port"))?.port();
        Ok(Self {
            program,
            directory,
            port,
            arguments,
            child: Mutex::default(),
            is_up: watch::channel(false).0,
        })
    }

    /// Returns the base URL.
    pub fn base_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the path of the ready file.
    pub fn ready_file(&self) -> PathBuf {
        self.directory.join(READY_FILE)
    }

    /// Returns the path of the log of all starts.
    pub fn log_file(&self) -> PathBuf {
        self.directory.join(LOG_FILE)
    }

    /// Starts the process and waits until it is ready. Returns the content of its ready file. If the future is
    /// dropped before, the process goes on until [`Self::kill`].
    ///
    /// # Errors
    ///
    /// When the process ends or does not become ready.
    pub async fn start(&self) -> Result<Value> {
        let ready_file = self.ready_file();
        let _ = std::fs::remove_file(&ready_file);
        let log = File::options().create(true).append(true).open(self.log_file());
        let log = log.map_err(Error::of("opening the log"))?;
        let child = Command::new(&self.program)
            .args(["--port", &self.port.to_string(), "--ready-file", READY_FILE])
            .args(&self.arguments)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .map_err(Error::of(&format!("starting {}", self.program.display())))?;
        *self.child.lock().await = Some(child);
        let started = Instant::now();
        let ready = loop {
            if let Some(ready) = read_json(&ready_file) {
                break ready;
            }
            let status = self.child.lock().await.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if let Some(status) = status {
                return Err(Error::new(format!(
                    "the service ended ({status}); see {}",
                    self.log_file().display()
                )));
            }
            if started.elapsed() > START_TIME {
                return Err(Error::new(format!(
                    "the service did not start; see {}",
                    self.log_file().display()
                )));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        self.is_up.send_replace(true);
        Ok(ready)
    }

    /// Kills the process with `SIGKILL`.
    ///
    /// # Errors
    ///
    /// When the system refuses it.
    pub async fn kill(&self) -> Result<()> {
        self.is_up.send_replace(false);
        match self.child.lock().await.take() {
            Some(mut child) => child.kill().await.map_err(Error::of("killing the service")),
            None => Ok(()),
        }
    }

    /// Returns the id of the process. `None`: it does not run.
    pub async fn process_id(&self) -> Option<u32> {
        self.child.lock().await.as_ref().and_then(Child::id)
    }

    /// Waits until the process is ready.
    pub async fn wait_until_up(&self) {
        // The sender lives as long as this object.
        let _ = self.is_up.subscribe().wait_for(|is_up| *is_up).await;
    }
}

fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}
