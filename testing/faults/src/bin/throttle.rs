//! A proxy between the functions and DynamoDB that throttles hot partitions. The soak starts it beside the service.

use std::convert::Infallible;
use std::process::ExitCode;

use clap::Parser;
use faults::Result;
use faults::proxy::{Ceiling, FaultProxy};
use local::fronts::Upstream;
use world::exit_code;

/// Throttle writes to a partition key of DynamoDB above a ceiling.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// The write units that a partition key accepts in a second, in the table and in each index; AWS allows 1000
    #[arg(long, value_name = "UNITS", value_parser = clap::value_parser!(u16).range(1..))]
    units: u16,
    /// Port to listen on, on the loopback interface
    #[arg(long)]
    port: u16,
    /// URL of DynamoDB
    #[arg(long)]
    dynamodb_url: String,
}

#[tokio::main]
async fn main() -> ExitCode {
    exit_code(run(Options::parse()).await.map(|never| match never {}))
}

async fn run(options: Options) -> Result<Infallible> {
    let proxy = FaultProxy::start_on(options.port).await?;
    proxy.fronts().url(Upstream::DynamoDb, &options.dynamodb_url);
    proxy.throttle(Ceiling::of_writes(options.units));
    std::future::pending().await
}
