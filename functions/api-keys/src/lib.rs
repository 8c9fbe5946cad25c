//! The routes of this family are not built yet: every path answers the contract's 404.

use axum::Router;
use shared::app::App;
use shared::http::framed;

/// The function's routes: none yet.
pub fn router(_app: App) -> Router {
    framed(Router::new())
}
