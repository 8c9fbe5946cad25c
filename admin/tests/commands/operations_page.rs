//! Tests that the commands on the operators' pages work. A command in a block of code is run against a local
//! service, in the order of the pages, unless the page marks it as not run. A command in a sentence or a table
//! must have names that the command line knows. `.ci/aws_commands.py` checks the commands of the AWS CLI, and
//! `.ci/ministack` runs the blocks of the first deployment.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::{AdminFixture, text};

const README: &str = include_str!("../../../README.md");

/// The mark of a command that needs more than a service on this machine.
const NOT_RUN: &str = "# not run by a test";

/// The commands that read no stack, so they succeed without one.
const WITHOUT_STACK: [&str; 1] = ["cost"];

/// Returns the text of the operators' pages.
fn page() -> String {
    let docs = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs"));
    let entries = std::fs::read_dir(docs.join("operations")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let others = ["operations.md", "first-deployment.md", "erasure.md", "pix.md", "cards.md", "crypto.md"];
    files.extend(others.map(|name| docs.join(name)));
    let texts: Vec<String> = files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    texts.join("\n")
}

/// Returns the lines of the blocks of code, with continued lines joined.
fn block_lines(page: &str) -> Vec<String> {
    let joined = page.replace("\\\n", " ");
    let blocks = joined.split("\n```").skip(1).step_by(2);
    blocks.flat_map(|block| block.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Returns the commands in sentences and tables, without the program's name. They begin with a group of commands.
fn spans(page: &str) -> Vec<String> {
    let help = Command::new(env!("CARGO_BIN_EXE_admin")).arg("--help").output().unwrap();
    let help = text(&help.stdout);
    let (_, groups) = help.split_once("\nCommands:\n").unwrap();
    let groups = groups.lines().map_while(|line| line.split_whitespace().next()).collect::<Vec<_>>();
    assert!(groups.contains(&"refunds"), "{groups:?}");
    let outside: String = page.split("\n```").step_by(2).collect::<Vec<_>>().join("\n");
    let joined = outside.replace('\n', " ");
    let spans = joined.split('`').skip(1).step_by(2).map(|span| span.trim_start_matches("admin ").to_owned());
    let is_command = |span: &String| span.split_once(' ').is_some_and(|(group, _)| groups.contains(&group));
    spans.filter(is_command).collect()
}

/// Returns the part of a line behind the program's name. `None`: the line is no command of `admin`.
fn admin_arguments(line: &str) -> Option<&str> {
    let line = line.trim_start_matches("$ ");
    line.strip_prefix("cargo run --bin admin -- ")
        .or_else(|| line.strip_prefix("cargo run -q --bin admin -- "))
}

/// Whether only the beginning of a command is given, as in `deliveries redrive …`.
fn is_abbreviated(command: &str) -> bool {
    let words: Vec<&str> = command.split(" #").next().unwrap().split_whitespace().collect();
    let is_value = words.iter().rev().nth(1).is_some_and(|word| word.starts_with("--"));
    words.last() == Some(&"…") && !is_value
}

/// Removes the parts in brackets, which are optional.
fn without_optional_parts(command: &str) -> String {
    let mut kept = String::new();
    let mut depth: u32 = 0;
    for letter in command.chars() {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            letter if depth == 0 => kept.push(letter),
            _ => {}
        }
    }
    kept
}

/// What placeholders stand for.
struct Values {
    account: String,
    key: String,
    /// The password and the token that earlier commands printed.
    password: String,
    token: String,
}

impl Values {
    fn fill(&self, command: &str) -> String {
        let filled = command
            .replace("'…'", "'contract of November'")
            .replace("\"password\": \"…\"", &format!("\"password\": \"{}\"", self.password))
            .replace("acc_…", &self.account)
            .replace("key_…", &self.key)
            .replace("--account …", &format!("--account {}", self.account))
            .replace("--mode …", "--mode test")
            .replace("--email …", "--email ana@padaria.example");
        [
            ("$ACCOUNT", self.account.as_str()),
            ("$COPY", "FormerTable"),
            ("$FORMER", "FormerTable"),
            ("$HASH", "absent"),
            ("$MOMENT", "2026-11-21T10:00:00Z"),
            ("$NEW", "payments-2"),
            ("$PROPOSAL", "pr_00000000000000000000000000"),
            ("$REASON", "agreed"),
            ("$STACK", "payments-2"),
        ]
        .iter()
        .fold(filled, |filled, (name, value)| filled.replace(name, value))
    }

    /// Reads the password and the token from the output of a command.
    fn read(&mut self, output: &str) {
        for object in output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            for (name, value) in [("password", &mut self.password), ("token", &mut self.token)] {
                if let Some(text) = object[name].as_str() {
                    text.clone_into(value);
                }
            }
        }
    }
}

async fn shell(line: String, variables: Vec<(&'static str, String)>) -> Output {
    let mut command = Command::new("bash");
    // Some commands write files.
    command.args(["-c", &format!("set -o pipefail; {line}")]).current_dir(std::env::temp_dir());
    command.env_remove("TABLE_NAME").env_remove("API_KEYS_TABLE_NAME").env("USER", "ana").envs(variables);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

fn program(ready_file: &str) -> String {
    format!("'{}' --ready-file '{ready_file}' ", env!("CARGO_BIN_EXE_admin"))
}

/// Returns the values of a service whose account has money, and a key that the audit shows.
async fn values_of(service: &AdminFixture) -> Values {
    let account = service.account();
    let key = service.stack.seed.first.live_api_key.clone();
    let rotated = service.request("POST", "/v1/webhooks/override-secret/rotate", ("apikey", &key)).await;
    assert_eq!(rotated.0, 200, "{}", rotated.1);
    let audit = crate::eventually("the action is in the audit", async || {
        service.audit(&account).await.into_iter().find(|row| row["action"] == "override-secret.rotate")
    });
    let key = audit.await["actor"].as_str().unwrap().to_owned();
    service
        .change(&format!("ledger adjust --account {account} --mode live --amount 1000 --reference c1"))
        .await;
    Values { account, key, password: String::new(), token: String::new() }
}

#[tokio::test]
async fn the_commands_on_the_operators_page_run() {
    let service = AdminFixture::start().await;
    let mut values = values_of(&service).await;
    let admin = program(&service.path("ready.json"));
    let readme = block_lines(README).into_iter().filter(|line| admin_arguments(line).is_some());
    let mut runs = 0;
    for line in block_lines(&page()).into_iter().chain(readme) {
        let command = match admin_arguments(&line) {
            Some(arguments) if is_abbreviated(arguments) => continue,
            Some(arguments) => format!("{admin}{}", values.fill(&without_optional_parts(arguments))),
            None if line.starts_with("curl ") => {
                values.fill(&line).replace("curl -s", "curl --silent --show-error --fail-with-body")
            }
            None => continue,
        };
        if line.contains(NOT_RUN) {
            continue;
        }
        let seed = &service.stack.seed.first;
        let variables = vec![
            ("API", service.stack.base_url.clone()),
            ("KEY", seed.test_api_key.clone()),
            ("TOKEN", values.token.clone()),
        ];
        let output = shell(command, variables).await;
        assert!(output.status.success(), "{line}\n{output:?}");
        values.read(&text(&output.stdout));
        runs += 1;
    }
    assert!(runs > 15, "only {runs} commands were found");
}

#[tokio::test]
async fn the_command_line_knows_all_commands_and_options_on_the_operators_page() {
    let values = Values {
        account: "acc_00000000000000000000000000".to_owned(),
        key: format!("key_{}", "0".repeat(64)),
        password: String::new(),
        token: String::new(),
    };
    let page = page();
    let fenced = block_lines(&page).into_iter();
    let fenced = fenced.filter_map(|line| admin_arguments(&line).map(str::to_owned));
    let mut checked = 0;
    for command in fenced.chain(spans(&page)) {
        // With an optional part, an option that the command line does not know is found there too. The
        // shell's pipes and alternatives such as `on|off` end the command.
        let whole = command.replace(['[', ']'], " ").replace("\\|", "|");
        let words = whole.split_whitespace().take_while(|word| !["#", "|"].contains(word));
        let mut words: Vec<&str> = words.filter_map(|word| word.split('|').next()).collect();
        if is_abbreviated(&command) {
            words.pop();
        }
        // The file does not exist, so a command on a stack does nothing after it is parsed.
        let line = format!("{}{}", program("/nonexistent/ready.json"), values.fill(&words.join(" ")));
        let output = shell(line, Vec::new()).await;
        let message = text(&output.stderr);
        for fault in ["unrecognized subcommand", "unexpected argument"] {
            assert!(!message.contains(fault), "{command}\n{message}");
        }
        let needs_stack = !WITHOUT_STACK.contains(&words.first().copied().unwrap_or_default());
        assert_eq!(output.status.success(), !needs_stack, "{command}: {output:?}");
        checked += 1;
    }
    assert!(checked > 60, "only {checked} commands were found");
}
