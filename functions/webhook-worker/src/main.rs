//! The Lambda that signs and posts one webhook delivery.

fn main() {}
