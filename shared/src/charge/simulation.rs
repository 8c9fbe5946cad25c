//! Limits the simulations of a test charge's payment. Anyone who knows the URL of a checkout page can post
//! them, so no API key limits their number.

use domain::charge::Charge;
use domain::time::Timestamp;

use crate::charge::Charges;
use crate::http::{Problem, RequestContext};
use crate::request_limit::count_in_minute;

/// The first simulation that changes the charge ends it, so a user needs few.
const MAX_SIMULATIONS_A_MINUTE: i64 = 10;

impl Charges {
    /// Stores the simulations left in this minute for the response headers. 429 `rate_limited` when none is
    /// left; a refused one is not counted.
    pub async fn count_simulation(
        &self,
        charge: &Charge,
        context: &RequestContext,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let limit = (format!("simulations#{}", charge.id), MAX_SIMULATIONS_A_MINUTE);
        count_in_minute(&self.store, limit, (context, charge.scope.to_string()), now).await
    }
}
