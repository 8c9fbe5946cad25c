use std::collections::BTreeMap;

use strum::{EnumString, IntoStaticStr, VariantArray};

/// A way in which the bank fails. Its name is that of the variant in snake case, such as `http_500`.
#[derive(Clone, Copy, Debug, EnumString, IntoStaticStr, PartialEq, Eq, PartialOrd, Ord, VariantArray)]
#[strum(serialize_all = "snake_case")]
pub enum FaultKind {
    /// The next API request gets no answer, and the bank does nothing. The connection closes after 60 s.
    Timeout,
    /// The next successful write is stored, and its answer is lost. The connection closes after 60 s.
    TimeoutAfterStore,
    /// The next API request is answered after 9 s.
    Slow,
    /// The next API request is answered 500, and the bank does nothing.
    #[strum(serialize = "http_500")]
    Http500,
    /// The next API request is answered 429 with `Retry-After: 2`, and the bank does nothing.
    #[strum(serialize = "http_429")]
    Http429,
    /// The next API request is answered 401. The token remains valid.
    #[strum(serialize = "http_401")]
    Http401,
    /// The next successful write is stored, and its answer is a 400.
    #[strum(serialize = "http_400_after_store")]
    Http400AfterStore,
    /// The tokens of the client of the next API request expire before it.
    TokenExpired,
    /// The next `GET /pix/{e2eid}` of a known Pix is answered 404.
    #[strum(serialize = "read_back_404")]
    ReadBack404,
    /// The next `GET /pix/{e2eid}` of a known Pix has no `valor`.
    MalformedPix,
    /// The next callback is not sent.
    LostNotification,
    /// The next callback is sent twice.
    DuplicateNotification,
    /// The next callback is sent 30 minutes late.
    LateNotification,
    /// The document of the next payer is masked in reads and callbacks.
    MaskedPayer,
    /// The next `GET /pix` ignores its filter by `cpf` or `cnpj`, and does not repeat it in `parametros`.
    FilterIgnored,
    /// The next `GET /pix` with a filter by `cpf` or `cnpj` lists no Pix yet.
    FilterLags,
    /// The bank removes an active cob just before the next `PATCH` or payment of it.
    RemovedByPsp,
    /// The next new cob has no `pixCopiaECola`.
    NoCopiaECola,
    /// The next payment of a cob is reported without its txid.
    MissingTxid,
    /// The next devolução or Pix out ends as `NAO_REALIZADO`.
    DevolucaoUnrealized,
    /// The next devolução or Pix out stays `EM_PROCESSAMENTO` for 6 hours.
    DevolucaoStuck,
    /// The next new devolução or Pix out is refused with 400, and the bank does nothing.
    DevolucaoRefused,
    /// The bank returns the next Pix to its payer, by a devolução with `natureza` `MED_FRAUDE`.
    MedDevolucao,
}

impl FaultKind {
    pub const ALL: &[Self] = Self::VARIANTS;

    pub fn name(self) -> &'static str {
        self.into()
    }

    pub fn parse(name: &str) -> Result<Self, UnknownFault> {
        name.parse().map_err(|_| UnknownFault { name: name.to_owned() })
    }
}

/// No fault has this name. The message lists all names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown fault kind {name:?}; use one of: {}", FaultKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownFault {
    name: String,
}

#[derive(Debug, Default)]
pub(crate) struct Faults(BTreeMap<FaultKind, u32>);

impl Faults {
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

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn pending(&self, kind: FaultKind) -> u32 {
        self.0.get(&kind).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_kind_and_another_is_answered_with_the_list() {
        for kind in FaultKind::ALL {
            assert_eq!(FaultKind::parse(kind.name()), Ok(*kind));
        }
        let message = FaultKind::parse("http_418").unwrap_err().to_string();
        assert!(message.contains("\"http_418\"") && message.contains("med_devolucao"), "{message}");
    }
}
