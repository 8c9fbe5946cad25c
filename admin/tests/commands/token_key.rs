//! Tests of `admin token-key`. It reads no stack, so no service is started.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::text;

#[test]
fn the_public_key_of_a_secret_is_printed_and_a_short_secret_is_refused() {
    // The key is openssl's, for the SHA-256 of the secret as the private key.
    let secret = "dashboard-tokens-of-the-smoke-test\n";
    for (secret, expected) in
        [(secret, "-CsaP6c9GodY9qQ4wAIpcgLZokIreiVIS2AT-RoMMzY\n"), (secret.get(4..).unwrap(), "")]
    {
        let mut command = Command::new(env!("CARGO_BIN_EXE_admin"));
        command.arg("token-key").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(secret.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            (output.status.success(), &*text(&output.stdout)),
            (!expected.is_empty(), expected),
            "{output:?}"
        );
    }
}
