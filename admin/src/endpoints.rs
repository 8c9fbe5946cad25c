//! `admin endpoints`: lists the webhook endpoints of an account.

use clap::Subcommand;
use effects::webhook::endpoint::{EndpointView, Endpoints};

use crate::output::print_list;
use crate::target::Stack;
use crate::{Result, ScopeArguments};

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List the webhook endpoints of an account in a mode, oldest first
    List(ScopeArguments),
}

pub(crate) async fn run(stack: &Stack, Command::List(scope): Command) -> Result<()> {
    let scope = stack.existing_scope(scope).await?;
    let endpoints = Endpoints::new(stack.store.clone()).list(&scope).await?;
    print_list(stack, "endpoints", endpoints.iter().map(EndpointView::new))
}
