//! A form of the dashboard with a file. It needs no script, because the whole body fits in a request to a function.

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRef, FromRequest, Multipart, Request};
use shared::http::{Problem, Query, RawBody, Result};
use url::form_urlencoded;

use crate::forms::{MemberForm, Sessions, Standing};

/// The largest body in bytes. A logo has at most 30 KiB; a picture that no script made smaller must still be read, so that
/// the refusal can name the limit. Lambda takes 4.5 MB.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// A [`MemberForm`] of the type `multipart/form-data` (RFC 7578) with one file.
pub struct MemberUpload<A> {
    pub member: MemberForm<A>,
    /// The content of the last field that has a file name; empty if no file was chosen.
    pub file: Bytes,
}

impl<S, A> FromRequest<S> for MemberUpload<A>
where
    S: Send + Sync,
    A: Sessions + FromRef<S> + Send + Sync,
{
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self> {
        let (mut parts, body) = request.into_parts();
        let member = MemberForm::enter(&mut parts, state, Standing::Active).await?;
        let RawBody::<MAX_BYTES>(bytes) = RawBody::from_request(Request::new(body), state).await?;
        let (form, file) = read(Request::from_parts(parts, bytes.into())).await.ok_or_else(|| {
            Problem::field("Content-Type", "must be multipart/form-data, with the body of such a form")
        })?;
        Ok(Self { member: member.filled(form)?, file })
    }
}

/// `None`: the body is not such a form.
async fn read(mut request: Request) -> Option<(Query, Bytes)> {
    // The body is read already, up to the limit.
    DefaultBodyLimit::disable().apply(&mut request);
    let mut fields = Multipart::from_request(request, &()).await.ok()?;
    let (mut pairs, mut file) = (Vec::new(), Bytes::new());
    while let Some(field) = fields.next_field().await.ok()? {
        if field.file_name().is_some() {
            file = field.bytes().await.ok()?;
        } else {
            let name = field.name().unwrap_or_default().to_owned();
            pairs.push((name, field.text().await.ok()?));
        }
    }
    let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    Some((Query::parse(Some(&form)), file))
}
