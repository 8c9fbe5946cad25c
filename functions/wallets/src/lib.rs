//! Serves `/v1/wallets`: balances and the statement, as JSON or CSV. Also the dashboard's forms about payouts.

mod forms;

use axum::http::{HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use money::payout::{PayoutKeys, Payouts};
use money::wallet::Wallets;
use money::wallet::statement::{StatementFilter, StatementFormat, balance_currency};
use money::wallet::view::{self, BalanceView, FlatBalanceView, WalletView, statement_csv};
use shared::clock::Clock;
use shared::config::{ConfigError, Vars};
use shared::http::{Problem, RequestContext, Result, csv_attachment, with_middleware};
use shared::store::Aws;

/// The response header with the cursor of the next page, because CSV has no field for it.
const NEXT_CURSOR: HeaderName = HeaderName::from_static("x-next-cursor");

#[derive(Debug)]
pub struct Uses {
    wallets: Wallets,
    payouts: Payouts,
    keys: PayoutKeys,
}

pub type App = shared::app::App<Uses>;
type Authenticated = shared::extract::Authenticated<Uses>;
type AuthenticatedQuery = shared::extract::AuthenticatedQuery<Uses>;

/// Reads the variables of [`App::from_vars`].
/// Errors: When a required variable is missing or a value is not valid.
pub fn app(aws: &Aws, clock: Clock, var: Vars<'_>) -> Result<App, ConfigError> {
    App::from_vars(aws, clock, var, |store, _| {
        Ok(Uses {
            wallets: Wallets::new(store.clone()),
            payouts: Payouts::new(store.clone()),
            keys: PayoutKeys::new(store.clone()),
        })
    })
}

pub fn router(app: App) -> Router {
    let origin = app.origin.clone();
    let routes = Router::new()
        .route("/v1/wallets", get(list))
        .route("/v1/wallets/balance", get(balance))
        .route("/v1/wallets/transactions", get(statement))
        .merge(forms::routes())
        .with_state(app);
    with_middleware(routes, origin)
}

async fn list(Authenticated { app, caller, .. }: Authenticated) -> Result<Response> {
    Ok(Json(WalletView::list(&app.wallets.for_scope(&caller.sharded_scope()).await?)?).into_response())
}

async fn balance(AuthenticatedQuery { app, caller, query, .. }: AuthenticatedQuery) -> Result<Response> {
    match balance_currency(&query)? {
        None => {
            Ok(Json(BalanceView::new(&app.wallets.for_scope(&caller.sharded_scope()).await?)?)
                .into_response())
        }
        Some(currency) => {
            let wallet = app.wallets.in_currency(&caller.sharded_scope(), currency).await?;
            Ok(Json(FlatBalanceView::new(&wallet)?).into_response())
        }
    }
}

async fn statement(
    AuthenticatedQuery { app, caller, query, .. }: AuthenticatedQuery,
    context: RequestContext,
) -> Result<Response> {
    let is_csv = context.headers.prefers_csv;
    let format = if is_csv { StatementFormat::Csv } else { StatementFormat::Json };
    let filter = StatementFilter::parse(&query, format)?;
    let page = app.wallets.statement(&caller.sharded_scope(), &filter).await?;
    if !is_csv {
        return Ok(Json(view::statement(&page)?).into_response());
    }
    let text = statement_csv(&page).map_err(|error| Problem::Internal(error.to_string()))?;
    let mut response = csv_attachment("statement.csv", text);
    if let Some(cursor) = page.next_cursor.and_then(|id| HeaderValue::from_str(&id.to_string()).ok()) {
        response.headers_mut().insert(NEXT_CURSOR, cursor);
    }
    Ok(response)
}
