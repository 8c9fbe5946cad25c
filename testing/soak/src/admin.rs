//! The operator's command, run as a process.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use crate::world::text;
use crate::{Error, Result};

/// Says that another page follows, and is followed by its cursor.
const CURSOR: &str = "--starting-after ";

/// The most pages of a list.
const MAX_PAGES: usize = 1_000;

/// The operator's command.
pub struct Admin {
    /// The program.
    pub program: PathBuf,
    /// The ready file of the service.
    pub ready_file: PathBuf,
}

/// The result of a command.
#[derive(Debug)]
pub struct Output {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Returns the lines of standard output that are JSON.
    pub fn json(&self) -> Vec<Value> {
        self.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

impl Admin {
    /// Runs a command.
    ///
    /// # Errors
    ///
    /// When the program can't be started.
    pub async fn run(&self, arguments: &[&str]) -> Result<Output> {
        let output = Command::new(&self.program)
            .arg("--ready-file")
            .arg(&self.ready_file)
            .args(arguments)
            .env("USER", "trial")
            .stdin(Stdio::null())
            .output()
            .await
            .map_err(Error::of(&format!("starting {}", self.program.display())))?;
        Ok(Output {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// Runs a command that must succeed.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub async fn expect(&self, arguments: &[&str]) -> Result<Output> {
        let output = self.run(arguments).await?;
        if output.code == 0 {
            return Ok(output);
        }
        Err(Error::new(format!("admin {} failed: {}", arguments.join(" "), output.stderr.trim())))
    }

    /// Returns the id of a merchant's account.
    ///
    /// # Errors
    ///
    /// When the service has no such account.
    pub async fn account_of(&self, merchant: &str) -> Result<String> {
        let accounts = self.expect(&["accounts", "list"]).await?.json();
        let account = accounts.iter().find(|account| text(account, "merchant_name") == merchant);
        let account = account.map(|account| text(account, "id"));
        account.ok_or_else(|| Error::new(format!("the service has no account {merchant}")))
    }

    /// Runs a list command for all its pages.
    ///
    /// # Errors
    ///
    /// When it fails.
    pub async fn list(&self, arguments: &[&str]) -> Result<Vec<Value>> {
        let mut all = Vec::new();
        let mut cursor: Option<String> = None;
        for _page in 0..MAX_PAGES {
            let mut page: Vec<&str> = arguments.to_vec();
            if let Some(cursor) = &cursor {
                page.extend(["--starting-after", cursor]);
            }
            let output = self.expect(&page).await?;
            all.extend(output.json());
            let next = output.stderr.split_once(CURSOR).and_then(|(_, rest)| rest.split_whitespace().next());
            match next {
                Some(next) => cursor = Some(next.to_owned()),
                None => return Ok(all),
            }
        }
        Err(Error::new(format!("admin {} has too many pages", arguments.join(" "))))
    }
}
