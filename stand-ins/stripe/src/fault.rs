/// The ways in which the stand-in fails. `docs/laptop.md` describes them.
pub(crate) const KINDS: &str = "timeout lost_answer slow http_500 stored_500 stored_500_after_write http_402 rate_limit lock_timeout key_expired no_permission lost_notification duplicate_notification late_notification malformed_entry reordered_notification refund_pending refund_requires_action refund_fails broken_voucher";
