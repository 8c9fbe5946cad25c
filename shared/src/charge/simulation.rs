//! Limits the simulations of a test charge's payment. Anyone who knows the URL of a charge's checkout page can
//! post them, so no API key limits their number.

use domain::charge::Charge;
use domain::time::Timestamp;

use crate::charge::Charges;
use crate::http::{Problem, RequestContext};
use crate::request_limit::count_in_minute;

/// The most simulations of a charge in a clock minute. The first one that changes the charge ends it, so a user
/// needs few.
const MAX_SIMULATIONS_A_MINUTE: i64 = 10;

impl Charges {
    /// Counts a simulation of a charge's payment, and stores the simulations left in this minute for the
    /// response headers. A refused simulation is not counted.
    ///
    /// # Errors
    ///
    /// 429 `rate_limited` if the charge has no simulation left in this minute.
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
