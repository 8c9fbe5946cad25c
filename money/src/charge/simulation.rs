//! Limits the simulations of a test charge's payment. Anyone who knows the URL of a checkout page can post
//! them, so no API key limits their number.

use domain::charge::Charge;
use domain::time::Timestamp;

use crate::charge::Charges;
use shared::http::{Problem, RequestContext};
use shared::request_limit::Limit;

/// The first simulation that changes the charge ends it, so a user needs few.
const SIMULATIONS: Limit = Limit::a_minute("simulations", 10);

impl Charges {
    /// Stores the simulations left in this minute for the response headers. 429 `rate_limited` when none is
    /// left; a refused one is not counted.
    pub async fn count_simulation(
        &self,
        charge: &Charge,
        context: &RequestContext,
        now: Timestamp,
    ) -> Result<(), Problem> {
        SIMULATIONS.count_request(&self.store, charge.id, (context, charge.scope.to_string()), now).await
    }
}
