//! Faults on demand.

use std::collections::BTreeMap;
use std::fmt;

macro_rules! fault_kinds {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// A way in which the bank fails.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FaultKind {
            $($(#[doc = $doc])* $variant,)*
        }

        impl FaultKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the name of the kind, such as `http_500`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

fault_kinds! {
    /// The next API request gets no answer, and the bank does nothing. The connection closes after 60 s.
    Timeout = "timeout",
    /// The next successful write is stored, and its answer is lost. The connection closes after 60 s.
    TimeoutAfterStore = "timeout_after_store",
    /// The next API request is answered after 9 s.
    Slow = "slow",
    /// The next API request is answered 500, and the bank does nothing.
    Http500 = "http_500",
    /// The next API request is answered 429 with `Retry-After: 2`, and the bank does nothing.
    Http429 = "http_429",
    /// The next API request is answered 401. The token remains valid.
    Http401 = "http_401",
    /// The next successful write is stored, and its answer is a 400.
    Http400AfterStore = "http_400_after_store",
    /// The tokens of the client of the next API request expire before it.
    TokenExpired = "token_expired",
    /// The next `GET /pix/{e2eid}` of a known Pix is answered 404.
    ReadBack404 = "read_back_404",
    /// The next callback is not sent.
    LostNotification = "lost_notification",
    /// The next callback is sent twice.
    DuplicateNotification = "duplicate_notification",
    /// The next callback is sent 30 minutes late.
    LateNotification = "late_notification",
    /// The document of the next payer is masked in reads and callbacks.
    MaskedPayer = "masked_payer",
    /// The next `GET /pix` ignores its filter by `cpf` or `cnpj`, and does not repeat it in `parametros`.
    FilterIgnored = "filter_ignored",
    /// The next `GET /pix` with a filter by `cpf` or `cnpj` lists no Pix yet.
    FilterLags = "filter_lags",
    /// The bank removes an active cob just before the next `PATCH` or payment of it.
    RemovedByPsp = "removed_by_psp",
    /// The next new cob has no `pixCopiaECola`.
    NoCopiaECola = "no_copia_e_cola",
    /// The next payment of a cob is reported without its txid.
    MissingTxid = "missing_txid",
    /// The next devolução or Pix out ends as `NAO_REALIZADO`.
    DevolucaoUnrealized = "devolucao_unrealized",
    /// The next devolução or Pix out stays `EM_PROCESSAMENTO` for 6 hours.
    DevolucaoStuck = "devolucao_stuck",
    /// The next new devolução or Pix out is refused with 400, and the bank does nothing.
    DevolucaoRefused = "devolucao_refused",
    /// The bank returns the next Pix to its payer, by a devolução with `natureza` `MED_FRAUDE`.
    MedDevolucao = "med_devolucao",
}

impl FaultKind {
    /// Returns the kind of a name.
    pub fn parse(name: &str) -> Result<Self, UnknownFault> {
        Self::ALL
            .iter()
            .copied()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownFault { name: name.to_owned() })
    }
}

/// No fault has this name. The message lists all names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownFault {
    name: String,
}

impl fmt::Display for UnknownFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<&str> = FaultKind::ALL.iter().map(|kind| kind.name()).collect();
        write!(formatter, "unknown fault kind {:?}; use one of: {}", self.name, known.join(", "))
    }
}

impl std::error::Error for UnknownFault {}

/// How often each fault will still occur.
#[derive(Debug, Default)]
pub(crate) struct Faults(BTreeMap<FaultKind, u32>);

impl Faults {
    /// Adds occurrences to a fault.
    pub(crate) fn inject(&mut self, kind: FaultKind, count: u32) {
        let left = self.0.entry(kind).or_default();
        *left = left.saturating_add(count);
    }

    /// True if the fault occurs now. Uses up one occurrence.
    pub(crate) fn take(&mut self, kind: FaultKind) -> bool {
        match self.0.get_mut(&kind) {
            Some(left) if *left > 0 => {
                *left = left.saturating_sub(1);
                true
            }
            Some(_) | None => false,
        }
    }

    /// Removes all faults.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns how often the fault will still occur.
    pub(crate) fn pending(&self, kind: FaultKind) -> u32 {
        self.0.get(&kind).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_occurs_as_often_as_it_was_injected() {
        let mut faults = Faults::default();
        assert!(!faults.take(FaultKind::Slow));
        faults.inject(FaultKind::Slow, 1);
        faults.inject(FaultKind::Slow, 1);
        assert_eq!(faults.pending(FaultKind::Slow), 2);
        assert!(!faults.take(FaultKind::Timeout));
        assert!(faults.take(FaultKind::Slow));
        assert!(faults.take(FaultKind::Slow));
        assert!(!faults.take(FaultKind::Slow));
    }

    #[test]
    fn every_name_leads_to_its_kind_and_another_is_answered_with_the_list() {
        for kind in FaultKind::ALL {
            assert_eq!(FaultKind::parse(kind.name()), Ok(*kind));
        }
        let message = FaultKind::parse("http_418").unwrap_err().to_string();
        assert!(message.contains("\"http_418\"") && message.contains("med_devolucao"), "{message}");
    }
}
