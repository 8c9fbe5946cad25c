use domain::acquirer::OddObject;
use domain::ids::EndToEndId;
use domain::money::Amount;
use domain::pix_key::PixKey;
use hyper::Method;
use hyper::body::Bytes;
use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::cob::{Cob, CobStatus, NewCob};
use crate::devolucao::Devolucao;
use crate::error::ApiError;
use crate::fields::{Fields, ParseError, amount_text, cut, partial_debug};
use crate::pix::{Pix, PixPage, PixQuery};
use crate::pix_out::{MAX_DESCRIPTION_CHARS, NewPixOut, PixOut};
use crate::request::{ApiRequest, ID_CHARS, TXID_CHARS, check_id};

const TXID_RULE: &str = "`txid` must be 26 to 35 letters and digits";
const DEVOLUCAO_ID_RULE: &str = "the id of a devolução must be 1 to 35 letters and digits";
const PIX_OUT_ID_RULE: &str = "the id of a Pix out must be 1 to 35 letters and digits";

#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// The URL. Most banks append `/pix` to it.
    pub url: String,
}

// Omits the URL, whose path may contain a token that authenticates callbacks.
partial_debug!(Webhook {});

impl Client {
    /// Creates a cob: `PUT /cob/{txid}`, and measures the bank's clock. A txid is used once, also after a removal. Some banks revise an
    /// active cob that has the txid already, others refuse.
    pub async fn put_cob(&self, txid: &str, cob: &NewCob) -> Result<Cob, ApiError> {
        check_id(txid, TXID_CHARS, TXID_RULE)?;
        let sent_at = self.now();
        let body = self.call(ApiRequest::put("put_cob", &["cob", txid], cob.body())).await?;
        let cob = parse(&body, ("txid", txid), Cob::parse)?;
        self.note_created(cob.created_at, sent_at);
        Ok(cob)
    }

    /// Reads a cob: `GET /cob/{txid}`. `None` if the bank does not know it.
    pub async fn get_cob(&self, txid: &str) -> Result<Option<Cob>, ApiError> {
        check_id(txid, TXID_CHARS, TXID_RULE)?;
        let body = found(self.call(ApiRequest::get("get_cob", &["cob", txid])).await)?;
        body.map(|body| parse(&body, ("txid", txid), Cob::parse)).transpose()
    }

    /// Removes a cob, so that it can't be paid: `PATCH /cob/{txid}`. The bank refuses it if the cob is not
    /// active.
    pub async fn remove_cob(&self, txid: &str) -> Result<Cob, ApiError> {
        check_id(txid, TXID_CHARS, TXID_RULE)?;
        let mut request = ApiRequest::new("remove_cob", Method::PATCH, &["cob", txid]);
        request.body = Some(json!({"status": CobStatus::RemovedByReceiver.as_str()}));
        parse(&self.call(request).await?, ("txid", txid), Cob::parse)
    }

    /// Reads a Pix: `GET /pix/{e2eid}`. `None` if the bank does not know it.
    pub async fn get_pix(&self, end_to_end_id: &EndToEndId) -> Result<Option<Pix>, ApiError> {
        let id = end_to_end_id.as_str();
        let body = found(self.call(ApiRequest::get("get_pix", &["pix", id])).await)?;
        body.map(|body| parse(&body, ("endToEndId", id), Pix::parse)).transpose()
    }

    /// Reads one page of the Pix of a period: `GET /pix`. An item that can't be read does not fail the page.
    ///
    /// A list that changes between two pages may shift. Pix that were settled early and reported late appear
    /// in the middle of it.
    pub async fn list_pix(&self, query: &PixQuery) -> Result<PixPage, ApiError> {
        if let Some(txid) = &query.txid {
            check_id(txid, ID_CHARS, "`txid` must be 1 to 35 letters and digits")?;
        }
        let mut request = ApiRequest::get("list_pix", &["pix"]);
        request.query = query.parameters();
        PixPage::parse(&object(&self.call(request).await?)?, query.page)
    }

    /// Requests the return of a Pix, or of a part of it: `PUT /pix/{e2eid}/devolucao/{id}`. An id is used once
    /// for a Pix: the same request again is refused. Only the first 140 characters of the description are
    /// sent.
    ///
    /// An error of this request never decides whether the money was returned. Use
    /// [`get_devolucao`](Self::get_devolucao).
    pub async fn put_devolucao(
        &self,
        end_to_end_id: &EndToEndId,
        id: &str,
        amount: Amount,
        description: Option<&str>,
    ) -> Result<Devolucao, ApiError> {
        check_id(id, ID_CHARS, DEVOLUCAO_ID_RULE)?;
        let mut body = json!({"valor": amount_text(amount)});
        if let (Some(fields), Some(text)) = (body.as_object_mut(), description) {
            fields.insert("descricao".to_owned(), cut(text, MAX_DESCRIPTION_CHARS).into());
        }
        let segments = ["pix", end_to_end_id.as_str(), "devolucao", id];
        let body = self.call(ApiRequest::put("put_devolucao", &segments, body)).await?;
        parse(&body, ("id", id), Devolucao::parse)
    }

    /// Reads a return: `GET /pix/{e2eid}/devolucao/{id}`. `None` if the bank does not know it.
    pub async fn get_devolucao(
        &self,
        end_to_end_id: &EndToEndId,
        id: &str,
    ) -> Result<Option<Devolucao>, ApiError> {
        check_id(id, ID_CHARS, DEVOLUCAO_ID_RULE)?;
        let segments = ["pix", end_to_end_id.as_str(), "devolucao", id];
        let body = found(self.call(ApiRequest::get("get_devolucao", &segments)).await)?;
        body.map(|body| parse(&body, ("id", id), Devolucao::parse)).transpose()
    }

    /// Registers the URL for the callbacks of a Pix key: `PUT /webhook/{chave}`.
    pub async fn put_webhook(&self, key: &PixKey, url: &str) -> Result<(), ApiError> {
        let body = json!({"webhookUrl": url});
        let mut request = ApiRequest::put("put_webhook", &["webhook", key.as_str()], body);
        request.registers_webhook = true;
        // The answer has no content that matters, and some banks send none.
        self.call(request).await.map(drop)
    }

    /// Reads the registered URL of a Pix key: `GET /webhook/{chave}`. `None` if there is none.
    pub async fn get_webhook(&self, key: &PixKey) -> Result<Option<Webhook>, ApiError> {
        let request = ApiRequest::get("get_webhook", &["webhook", key.as_str()]);
        let Some(body) = found(self.call(request).await)? else {
            return Ok(None);
        };
        let object = object(&body)?;
        let url = Fields::new(&object).required_text("webhookUrl").map(str::to_owned);
        url.map(|url| Some(Webhook { url })).map_err(|error| ApiError::Malformed(error.to_string()))
    }

    /// Removes the registered URL of a Pix key: `DELETE /webhook/{chave}`. It also succeeds if there is none.
    pub async fn delete_webhook(&self, key: &PixKey) -> Result<(), ApiError> {
        let request = ApiRequest::new("delete_webhook", Method::DELETE, &["webhook", key.as_str()]);
        found(self.call(request).await).map(drop)
    }

    /// Sends a Pix, in the dialect `local`: `PUT /pix-out/{id}`. The same request again returns the same Pix.
    pub async fn put_pix_out(&self, id: &str, pix_out: &NewPixOut) -> Result<PixOut, ApiError> {
        check_id(id, ID_CHARS, PIX_OUT_ID_RULE)?;
        let body = self.call(ApiRequest::put("put_pix_out", &["pix-out", id], pix_out.body())).await?;
        parse(&body, ("id", id), PixOut::parse)
    }

    /// Reads a Pix that was sent, in the dialect `local`: `GET /pix-out/{id}`. `None` if the bank does not
    /// know it.
    pub async fn get_pix_out(&self, id: &str) -> Result<Option<PixOut>, ApiError> {
        check_id(id, ID_CHARS, PIX_OUT_ID_RULE)?;
        let body = found(self.call(ApiRequest::get("get_pix_out", &["pix-out", id])).await)?;
        body.map(|body| parse(&body, ("id", id), PixOut::parse)).transpose()
    }
}

fn found(outcome: Result<Bytes, ApiError>) -> Result<Option<Bytes>, ApiError> {
    match outcome {
        Err(ApiError::NotFound(_)) => Ok(None),
        outcome => outcome.map(Some),
    }
}

fn object(body: &Bytes) -> Result<Map<String, Value>, ApiError> {
    serde_json::from_slice(body).map_err(|_| ApiError::Malformed("it must be a JSON object".to_owned()))
}

/// Parses an object, whose `field` must be the `id` of the request.
fn parse<T>(
    body: &Bytes,
    (field, id): (&str, &str),
    parse: impl Fn(&Value) -> Result<T, ParseError>,
) -> Result<T, ApiError> {
    let value = Value::Object(object(body)?);
    let parsed = parse(&value).map_err(|error| ApiError::Odd(OddObject::new(id, error.to_string())))?;
    let is_same = value.get(field).and_then(Value::as_str) == Some(id);
    is_same
        .then_some(parsed)
        .ok_or_else(|| ApiError::Malformed(format!("`{field}` must be that of the request")))
}
