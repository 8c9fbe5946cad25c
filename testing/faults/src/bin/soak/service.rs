//! The programs: the service, which can be killed and started again, and the operator's command.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::sync::{Mutex, watch};
use world::{Error, Result};

/// How long a start may take.
const START_TIME: Duration = Duration::from_secs(90);

const READY_FILE: &str = "ready.json";
const LOG_FILE: &str = "service.log";

/// Says that another page follows, and is followed by its cursor.
const CURSOR: &str = "--starting-after ";

/// The most pages of a list of the operator's command.
const MAX_PAGES: usize = 1_000;

/// The service as a process in a directory of its own.
pub(crate) struct Service {
    program: PathBuf,
    admin: PathBuf,
    /// The directory of its state and its log.
    pub directory: PathBuf,
    port: u16,
    child: Mutex<Option<Child>>,
    /// The content of the ready file, or null while the service does not run.
    pub ready: watch::Sender<Value>,
}

/// The result of an operator's command.
pub(crate) struct Output {
    pub code: i32,
    /// The lines of standard output that are JSON.
    pub json: Vec<Value>,
    pub stdout: String,
    pub stderr: String,
}

/// Returns the path of a program of the workspace, which is beside this one.
fn program(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().map_err(Error::of("finding this program"))?;
    let path = own.with_file_name(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if path.exists() {
        return Ok(path);
    }
    Err(Error::new(format!("there is no {}; run `cargo build`", path.display())))
}

/// Returns a free port. The system gives the next program that asks for any port another one.
pub(crate) fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    Ok(listener.map_err(Error::of("finding a free port"))?.port())
}

impl Service {
    /// Prepares the service on a free port. [`Self::start`] starts it.
    pub(crate) fn new(directory: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&directory).map_err(Error::of("creating the directory"))?;
        // Every start uses the same port, so that URLs stay the same.
        let port = free_port()?;
        let ready = watch::channel(Value::Null).0;
        let (program, admin) = (program("local")?, program("admin")?);
        Ok(Self { program, admin, directory, port, child: Mutex::default(), ready })
    }

    /// Returns the content of the ready file.
    pub(crate) fn ready(&self) -> Value {
        self.ready.borrow().clone()
    }

    /// The content of the ready file. An error while the service does not run.
    pub(crate) fn running(&self) -> Result<Value> {
        let ready = self.ready();
        if ready.is_null() { Err(Error::new("the service does not run")) } else { Ok(ready) }
    }

    /// Starts the process and waits until it is ready. If the future is dropped before, the process goes on until
    /// [`Self::kill`].
    pub(crate) async fn start(&self, arguments: &[String]) -> Result<()> {
        let ready_file = self.directory.join(READY_FILE);
        let _ = std::fs::remove_file(&ready_file);
        let log = self.directory.join(LOG_FILE);
        let output = File::options().create(true).append(true).open(&log);
        let child = Command::new(&self.program)
            .args(["--port", &self.port.to_string(), "--ready-file", READY_FILE])
            .args(arguments)
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(output.map_err(Error::of("opening the log"))?)
            .kill_on_drop(true)
            .spawn()
            .map_err(Error::of(&format!("starting {}", self.program.display())))?;
        *self.child.lock().await = Some(child);
        let started = Instant::now();
        while started.elapsed() < START_TIME {
            if let Some(ready) = read_json(&ready_file) {
                self.ready.send_replace(ready);
                return Ok(());
            }
            let status = self.child.lock().await.as_mut().and_then(|child| child.try_wait().ok().flatten());
            if let Some(status) = status {
                return Err(Error::new(format!("the service ended ({status}); see {}", log.display())));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Err(Error::new(format!("the service did not start; see {}", log.display())))
    }

    /// Kills the process with `SIGKILL`.
    pub(crate) async fn kill(&self) -> Result<()> {
        self.ready.send_replace(Value::Null);
        match self.child.lock().await.take() {
            Some(mut child) => child.kill().await.map_err(Error::of("killing the service")),
            None => Ok(()),
        }
    }

    /// Runs an operator's command.
    pub(crate) async fn admin(&self, arguments: &[&str]) -> Result<Output> {
        let output = Command::new(&self.admin)
            .arg("--ready-file")
            .arg(self.directory.join(READY_FILE))
            .args(arguments)
            .env("USER", "soak")
            .stdin(Stdio::null())
            .output()
            .await
            .map_err(Error::of(&format!("starting {}", self.admin.display())))?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(Output {
            code: output.status.code().unwrap_or(-1),
            json: stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(),
            stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs an operator's command that must succeed.
    pub(crate) async fn admin_must(&self, arguments: &[&str]) -> Result<Output> {
        let output = self.admin(arguments).await?;
        if output.code == 0 {
            return Ok(output);
        }
        Err(Error::new(format!("admin {} failed: {}", arguments.join(" "), output.stderr.trim())))
    }

    /// Runs an operator's command that lists objects, for all pages.
    pub(crate) async fn admin_list(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        for _page in 0..MAX_PAGES {
            let rest: Vec<&str> = cursor.iter().flat_map(|cursor| ["--starting-after", cursor]).collect();
            let output = self.admin_must(&[arguments, &rest].concat()).await?;
            all.extend(output.json);
            let next = output.stderr.split_once(CURSOR).and_then(|(_, rest)| rest.split_whitespace().next());
            let Some(next) = next else { return Ok(all) };
            cursor = Some(next.to_owned());
        }
        Err(Error::new(format!("admin {} has too many pages", arguments.join(" "))))
    }
}

fn read_json(path: &Path) -> Option<Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}
