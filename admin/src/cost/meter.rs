//! What AWS bills for a charge, by part of the stack.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A quantity that AWS bills. The names are those in price files and usage files.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Meter {
    DynamodbWriteUnits,
    DynamodbReadUnits,
    LambdaInvocations,
    /// Of functions on arm64, the default architecture of the template.
    LambdaGbSeconds,
    SqsRequests,
    /// The surcharge for requests to a queue whose messages have a message group.
    SqsFairQueueRequests,
    HttpApiRequests,
    S3WriteRequests,
    S3ReadRequests,
    LogBytes,
}

impl Meter {
    /// All meters, in the order of the output.
    pub(super) const ALL: [Self; 10] = [
        Self::DynamodbWriteUnits,
        Self::DynamodbReadUnits,
        Self::LambdaInvocations,
        Self::LambdaGbSeconds,
        Self::SqsRequests,
        Self::SqsFairQueueRequests,
        Self::HttpApiRequests,
        Self::S3WriteRequests,
        Self::S3ReadRequests,
        Self::LogBytes,
    ];

    pub(super) fn part(self) -> Part {
        match self {
            Self::DynamodbWriteUnits | Self::DynamodbReadUnits => Part::DynamoDb,
            Self::LambdaInvocations | Self::LambdaGbSeconds => Part::Lambda,
            Self::SqsRequests | Self::SqsFairQueueRequests => Part::Sqs,
            Self::HttpApiRequests => Part::ApiGateway,
            Self::S3WriteRequests | Self::S3ReadRequests => Part::S3,
            Self::LogBytes => Part::Logs,
        }
    }

    /// The name in the table, below its part.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::DynamodbWriteUnits => "write units",
            Self::DynamodbReadUnits => "read units",
            Self::LambdaInvocations => "invocations",
            Self::LambdaGbSeconds => "GB-seconds, arm64",
            Self::SqsRequests => "requests",
            Self::SqsFairQueueRequests => "surcharge of fair queues",
            Self::HttpApiRequests => "requests to the HTTP API",
            Self::S3WriteRequests => "PUT requests",
            Self::S3ReadRequests => "GET requests",
            Self::LogBytes => "bytes ingested",
        }
    }
}

/// A part of the stack, by the AWS service that bills it.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
pub(super) enum Part {
    #[serde(rename = "DynamoDB")]
    DynamoDb,
    Lambda,
    #[serde(rename = "SQS")]
    Sqs,
    #[serde(rename = "API Gateway")]
    ApiGateway,
    S3,
    #[serde(rename = "logs")]
    Logs,
}

impl Part {
    /// All parts, in the order of the output.
    pub(super) const ALL: [Self; 6] =
        [Self::DynamoDb, Self::Lambda, Self::Sqs, Self::ApiGateway, Self::S3, Self::Logs];
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(formatter)
    }
}
