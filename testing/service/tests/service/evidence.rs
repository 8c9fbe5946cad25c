//! Tests of the evidence of MED cases. Most files are uploaded with a plain HTTP client, as a merchant does,
//! not with an S3 client.

use axum::body::{Body, Bytes};
use axum::http::{Method, Request};
use http_body_util::BodyExt as _;
use money::med::evidence::{
    CONFIRMED_PREFIX, CaseEvidence, EvidenceFiles, EvidenceRow, PENDING_DAYS, PENDING_PREFIX,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use shared::object_store::ObjectStoreError;
use shared::store::Aws;
use tower::ServiceExt as _;
use url::Url;

use crate::support::{Answer, Client, Listener, Service, id};

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand so on";

impl Service {
    async fn case(&self) -> Value {
        let charge = self.pay(1000).await;
        self.open_case(&charge, json!({})).await
    }

    /// Opens a case and requests an upload for one file. Returns the case and the upload ticket.
    async fn ticket(&self, bytes: &[u8], mime_type: &str) -> (Value, Value) {
        let case = self.case().await;
        let ticket = self.request_upload(&case, bytes, mime_type).await;
        (case, ticket)
    }

    async fn request_upload(&self, case: &Value, bytes: &[u8], mime_type: &str) -> Value {
        let body = json!({"file_name": "prova.bin", "file_size": bytes.len(), "mime_type": mime_type});
        self.post(&evidence_path(case), &body).await.expect(201)
    }

    async fn upload(&self, ticket: &Value, bytes: &[u8]) {
        let sent = self.put(ticket, &[], bytes).await;
        assert_eq!(sent.status, 200, "{:?}", sent.bytes);
    }

    /// Sends the file to the ticket's URL, with the ticket's content type unless `more` has another.
    async fn put(&self, ticket: &Value, more: &[(&str, &str)], bytes: &[u8]) -> Answer {
        let own = [("content-type", ticket["upload_headers"]["Content-Type"].as_str().unwrap())];
        let is_own = !more.iter().any(|(name, _)| *name == "content-type");
        let headers = if is_own { [&own, more].concat() } else { more.to_vec() };
        let url = ticket["upload_url"].as_str().unwrap();
        self.raw(Method::PUT, url, &headers, bytes.to_vec()).await
    }

    async fn evidence_count(&self, case: &Value) -> Value {
        self.get(&format!("/v1/med/cases/{}", id(case))).await.expect(200)["evidence_count"].clone()
    }

    fn s3(&self) -> aws_sdk_s3::Client {
        local::sdk::s3(&self.stack.endpoints.s3_url)
    }

    /// Uploads a ticket's file with credentials instead of the signed URL, so that S3 does not check the
    /// URL's conditions.
    async fn upload_unchecked(&self, case: &Value, ticket: &Value, bytes: &'static [u8]) {
        let key = format!("{PENDING_PREFIX}{}/{}", id(case), id(ticket));
        let put = self.s3().put_object().bucket("documents-bucket").key(key).body(bytes.to_vec().into());
        put.send().await.unwrap();
    }
}

impl Client {
    async fn complete(&self, case: &Value, ticket: &Value) -> Answer {
        self.post(&format!("{}/{}/complete", evidence_path(case), id(ticket)), &json!({})).await
    }

    async fn evidence(&self, case: &Value) -> Vec<Value> {
        let list = self.get(&evidence_path(case)).await.expect(200);
        assert_eq!((&list["object"], list.as_object().unwrap().len()), (&json!("list"), 2));
        list["data"].as_array().unwrap().clone()
    }
}

fn evidence_path(case: &Value) -> String {
    format!("/v1/med/cases/{}/evidence", id(case))
}

#[tokio::test]
async fn a_10_mb_file_is_uploaded_in_three_steps_and_downloaded_unchanged() {
    let service = Service::start().await;
    let listener = Listener::start().await;
    service.register_endpoint(&listener.url, &["med_case.created", "med_case.updated"]).await;
    let case = service.case().await;
    let file: Vec<u8> = b"%PDF-1.7\n"
        .iter()
        .copied()
        .chain((0..).map(|n: u32| n.to_le_bytes()[1]))
        .take(10_485_760)
        .collect();
    let body = json!({
        "file_name": "nota \"fiscal\" nº 1.pdf", "file_size": file.len(), "mime_type": "application/pdf",
    });
    let ticket = service.post(&evidence_path(&case), &body).await.expect(201);
    assert_eq!(
        ticket,
        json!({
            "id": ticket["id"], "object": "med_case_evidence_upload", "upload_url": ticket["upload_url"],
            "upload_method": "PUT", "expires_in": 900,
            "upload_headers": {"Content-Type": "application/pdf", "Content-Length": "10485760"},
        })
    );
    assert!(id(&ticket).starts_with("mev_"));
    let partition = case["charge_id"].as_str().unwrap().replace("ch_", "charge#");
    let row = service.rows(&partition, "upload#").await.remove(0);
    let kept_seconds = service.seconds_kept(&row);
    assert!((600_000..=604_800).contains(&kept_seconds), "a week: {kept_seconds}");
    // A plain HTTP client sends no signed headers other than type and size.
    let url = Url::parse(ticket["upload_url"].as_str().unwrap()).unwrap();
    let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let value = |name: &str| &query.iter().find(|(key, _)| key == name).unwrap().1;
    assert_eq!(value("X-Amz-SignedHeaders"), "content-length;content-type;host");
    assert_eq!(value("X-Amz-Expires"), "900");
    assert!(query.iter().all(|(name, _)| !name.to_lowercase().contains("checksum")), "{url}");

    assert_eq!((service.evidence(&case).await, service.evidence_count(&case).await), (vec![], json!(0)));
    service.upload(&ticket, &file).await;
    assert_eq!((service.evidence(&case).await, service.evidence_count(&case).await), (vec![], json!(0)));
    let evidence = service.complete(&case, &ticket).await.expect(200);
    assert_eq!(
        evidence,
        json!({
            "id": ticket["id"], "object": "med_case_evidence", "file_name": "nota \"fiscal\" nº 1.pdf",
            "file_size": 10_485_760, "mime_type": "application/pdf", "uploaded_by": "merchant",
            "created_at": evidence["created_at"], "uploaded_at": evidence["uploaded_at"],
            "view_url": evidence["view_url"], "sha256": domain::hex::encode(Sha256::digest(&file)),
        })
    );
    assert_eq!(service.evidence_count(&case).await, json!(1));

    let downloaded = service.raw(Method::GET, evidence["view_url"].as_str().unwrap(), &[], "").await;
    assert_eq!((downloaded.status.as_u16(), downloaded.bytes == file), (200, true));
    assert_eq!(downloaded.header("content-type"), Some("application/pdf"));
    assert_eq!(
        downloaded.header("content-disposition"),
        Some(
            "attachment; filename=\"nota _fiscal_ n_ 1.pdf\"; filename*=UTF-8''nota%20%22fiscal%22%20n%C2%BA%201.pdf"
        )
    );
    // The download URL expires after five minutes. The list has a new one.
    service.advance_seconds(301).await;
    let late = service.raw(Method::GET, evidence["view_url"].as_str().unwrap(), &[], "").await;
    assert_eq!(late.status, 403);
    let listed = &service.evidence(&case).await[0];
    assert_eq!((&listed["id"], &listed["uploaded_at"]), (&evidence["id"], &evidence["uploaded_at"]));
    let fresh = service.raw(Method::GET, listed["view_url"].as_str().unwrap(), &[], "").await;
    assert_eq!(fresh.status, 200);

    // Evidence emits no event. The appeal emits one, with the evidence count.
    service.answer_case(&case, "appeal", json!({"reason": "Entregue"})).await.expect(200);
    let updated = listener.wait_for_event("med_case.updated").await.json();
    assert_eq!(updated["data"]["object"]["evidence_count"], 1);
    assert_eq!(updated["data"]["object"]["status"], "appealed");
    assert_eq!(listener.hooks().len(), 2);
}

#[tokio::test]
async fn the_storage_refuses_requests_that_differ_from_the_signed_upload() {
    let service = Service::start().await;
    let (case, ticket) = service.ticket(PNG, "image/png").await;
    let url = ticket["upload_url"].as_str().unwrap();
    let refused =
        async |more: &[(&str, &str)], bytes: &[u8]| service.put(&ticket, more, bytes).await.status.as_u16();
    assert_eq!(refused(&[("content-type", "image/jpeg")], PNG).await, 403);
    assert_eq!(refused(&[], &PNG[..PNG.len() - 1]).await, 403);
    assert_eq!(refused(&[], &[PNG, b"!"].concat()).await, 403);
    // The upload URL cannot be used to download.
    assert_eq!(service.raw(Method::GET, url, &[("content-type", "image/png")], "").await.status, 403);
    assert_eq!(service.complete(&case, &ticket).await.code(), "EVIDENCE_NOT_UPLOADED");

    service.advance_seconds(800).await;
    service.upload(&ticket, PNG).await;
    service.advance_seconds(101).await;
    assert_eq!(service.put(&ticket, &[], PNG).await.status, 403);
    // The file arrived in time but was not confirmed in time. The client must request a new upload.
    let late = service.complete(&case, &ticket).await;
    assert_eq!(late.problem(), (409, "conflict_error", "EVIDENCE_NOT_UPLOADED"));
    let ticket = service.request_upload(&case, PNG, "image/png").await;
    service.upload(&ticket, PNG).await;
    service.complete(&case, &ticket).await.expect(200);
}

#[tokio::test]
async fn a_file_that_differs_from_its_declaration_is_not_accepted() {
    let service = Service::start().await;
    let (case, ticket) = service.ticket(PNG, "image/png").await;
    let missing = service.complete(&case, &ticket).await;
    assert_eq!(missing.problem(), (409, "conflict_error", "EVIDENCE_NOT_UPLOADED"));
    for bytes in [&b"\x89PNG\r\n\x1a\n"[..], b""] {
        service.upload_unchecked(&case, &ticket, bytes).await;
        let mismatch = service.complete(&case, &ticket).await;
        assert_eq!(mismatch.problem(), (409, "conflict_error", "EVIDENCE_SIZE_MISMATCH"));
    }
    let wrong_content: Vec<u8> = PNG.iter().rev().copied().collect();
    service.upload(&ticket, &wrong_content).await;
    let refused = service.complete(&case, &ticket).await;
    assert_eq!(refused.problem(), (400, "invalid_request_error", "invalid_request"));
    assert_eq!(refused.params(), ["mime_type"]);
    assert_eq!((service.evidence(&case).await, service.evidence_count(&case).await), (vec![], json!(0)));
    // The upload URL still accepts the correct file.
    service.upload(&ticket, PNG).await;
    service.complete(&case, &ticket).await.expect(200);
    for (bytes, mime_type) in [
        (&b"\xff\xd8\xff\xe0"[..], "image/jpeg"),
        (b"RIFF\x04\0\0\0WEBP", "image/webp"),
        (b"GIF89a", "image/gif"),
        (b"%PDF-1.4", "application/pdf"),
    ] {
        let ticket = service.request_upload(&case, bytes, mime_type).await;
        service.upload(&ticket, bytes).await;
        service.complete(&case, &ticket).await.expect(200);
    }
    assert_eq!(service.evidence_count(&case).await, json!(5));
}

#[tokio::test]
async fn confirmed_evidence_is_unchanged_by_later_uploads_and_decisions() {
    let service = Service::start().await;
    let (case, ticket) = service.ticket(PNG, "image/png").await;
    service.upload(&ticket, PNG).await;
    let complete = async || without_url(service.complete(&case, &ticket).await.expect(200));
    let (one, two, three, four) = tokio::join!(complete(), complete(), complete(), complete());
    let answers = [one, two, three, four];
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
    assert_eq!((service.evidence(&case).await.len(), service.evidence_count(&case).await), (1, json!(1)));

    // The upload URL accepts another file until it expires. The confirmed file stays.
    let other: Vec<u8> = PNG.iter().map(u8::to_ascii_uppercase).collect();
    service.upload(&ticket, &other).await;
    let again = service.complete(&case, &ticket).await.expect(200);
    let downloaded = service.raw(Method::GET, again["view_url"].as_str().unwrap(), &[], "").await;
    assert_eq!(downloaded.bytes, PNG);

    let unused = service.request_upload(&case, PNG, "image/png").await;
    service.upload(&unused, PNG).await;
    service.decide_case(&case, "payer").await.expect(200);
    for ends in [0, 901, 90 * 86_400] {
        service.advance_seconds(ends).await;
        assert_eq!(without_url(service.complete(&case, &ticket).await.expect(200)), answers[0]);
    }
    // A closed case accepts no more evidence.
    let late = service.complete(&case, &unused).await;
    assert_eq!(late.problem(), (400, "invalid_request_error", "invalid_request"));
    let body = json!({"file_name": "a.png", "file_size": 10, "mime_type": "image/png"});
    let late = service.post(&evidence_path(&case), &body).await;
    assert_eq!(late.problem(), (400, "invalid_request_error", "invalid_request"));
    assert_eq!((service.evidence(&case).await.len(), service.evidence_count(&case).await), (1, json!(1)));
}

#[tokio::test]
async fn a_file_replaced_during_its_check_is_not_stored_as_evidence() {
    let service = Service::start().await;
    let (case, ticket) = service.ticket(PNG, "image/png").await;
    service.upload(&ticket, PNG).await;
    let evidence = CaseEvidence::new(service.store(), EvidenceFiles::new(service.s3(), "documents-bucket"));
    let ids = (id(&case).parse().unwrap(), id(&ticket).parse().unwrap());
    let Some(EvidenceRow::Pending(upload)) = evidence.find(Some(ids)).await.unwrap() else { panic!() };
    let arrived = evidence.files.read_upload(&upload).await.unwrap().unwrap();
    let checked = upload.confirmed(&arrived, service.stack.clock.now()).unwrap();

    service.upload_unchecked(&case, &ticket, b"MZ and so on, not a picture").await;
    let refused = evidence.files.copy_confirmed(&upload, &arrived, &checked).await.unwrap_err();
    assert!(matches!(refused, ObjectStoreError::Unavailable(_)), "{refused:?}");
    let stored = service
        .s3()
        .list_objects_v2()
        .bucket("documents-bucket")
        .prefix(CONFIRMED_PREFIX)
        .send()
        .await
        .unwrap();
    assert!(stored.contents().is_empty(), "{stored:?}");
    assert_eq!(service.complete(&case, &ticket).await.code(), "EVIDENCE_SIZE_MISMATCH");

    // A confirmation gets 503 while the storage is down, and succeeds later.
    service.upload(&ticket, PNG).await;
    // Nothing listens on this port.
    let variables = service.variables("MedFunction", "http://127.0.0.1:1");
    let var = |name: &str| variables[name].as_str().map(str::to_owned);
    let med = med::app(&Aws::from_vars(&var).unwrap(), service.stack.clock.clone(), &var).unwrap();
    let path = format!("{}/{}/complete", evidence_path(&case), id(&ticket));
    let request = Request::post(&path).header("apikey", service.key()).body(Body::empty()).unwrap();
    let answer = med::router(med).oneshot(request).await.unwrap();
    assert_eq!(answer.status(), 503);
    let body: Bytes = answer.into_body().collect().await.unwrap().to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(body["error"]["code"], "service_unavailable");
    service.complete(&case, &ticket).await.expect(200);
}

#[tokio::test]
async fn evidence_is_listed_newest_first_and_only_under_its_case() {
    let service = Service::start().await;
    let charge = service.pay(1000).await;
    let (case, twin) =
        (service.open_case(&charge, json!({})).await, service.open_case(&charge, json!({})).await);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let ticket = service.request_upload(&case, PNG, "image/png").await;
        service.upload(&ticket, PNG).await;
        service.complete(&case, &ticket).await.expect(200);
        ids.insert(0, id(&ticket).to_owned());
        service.advance_seconds(1).await;
    }
    let ticket = service.request_upload(&twin, PNG, "image/png").await;
    service.upload(&ticket, PNG).await;
    service.complete(&twin, &ticket).await.expect(200);
    let listed: Vec<String> = service.evidence(&case).await.iter().map(|one| id(one).to_owned()).collect();
    assert_eq!(listed, ids);
    let alias = service.get(&format!("/v1/infractions/{}/evidence", id(&case))).await.expect(200);
    assert_eq!(alias["data"].as_array().unwrap().len(), 3);
    assert_eq!((service.evidence(&twin).await.len(), service.evidence_count(&twin).await), (1, json!(1)));

    // A ticket of another case and a case of another scope are not found.
    for unknown in [&ticket, &json!({"id": "mev_1"}), &json!({"id": "mev_00000000000000000000000000"})] {
        assert_eq!(service.complete(&case, unknown).await.problem(), (404, "not_found_error", "not_found"));
    }
    let other = service.other_account();
    let live = service.live_client();
    let body = json!({"file_name": "a.png", "file_size": 10, "mime_type": "image/png"});
    for stranger in [&other, &live] {
        assert_eq!(stranger.complete(&twin, &ticket).await.code(), "not_found");
        assert_eq!(stranger.post(&evidence_path(&case), &body).await.code(), "not_found");
        assert_eq!(stranger.get(&evidence_path(&case)).await.code(), "not_found");
    }
}

#[test]
fn the_template_expires_pending_uploads_and_no_confirmed_evidence() {
    let template: serde_yaml_ng::Value = serde_yaml_ng::from_str(local::template::TEMPLATE).unwrap();
    let resources = &template["Resources"];
    let rules =
        resources["DocumentsBucket"]["Properties"]["LifecycleConfiguration"]["Rules"].as_sequence().unwrap();
    let rule = rules.iter().find(|rule| rule["Prefix"].as_str() == Some(PENDING_PREFIX)).unwrap();
    assert_eq!(rule["ExpirationInDays"], PENDING_DAYS);
    assert_eq!(rule["NoncurrentVersionExpiration"]["NoncurrentDays"], PENDING_DAYS);
    // Confirmed evidence is outside that prefix.
    assert!(!CONFIRMED_PREFIX.starts_with(PENDING_PREFIX));
    assert!(rules.iter().all(|rule| rule.get("ExpirationInDays").is_none() || rule.get("Prefix").is_some()));
}

fn without_url(evidence: Value) -> Value {
    let mut evidence = evidence;
    evidence.as_object_mut().unwrap().remove("view_url").unwrap();
    evidence
}

#[tokio::test]
async fn a_case_has_a_hundred_upload_urls_within_a_week() {
    let service = Service::start().await;
    let case = service.case().await;
    let body = json!({"file_name": "prova.bin", "file_size": PNG.len(), "mime_type": "image/png"});
    for _ in 0..95 {
        service.request_upload(&case, PNG, "image/png").await;
    }
    // At the same time too.
    let path = evidence_path(&case);
    let posts = (0..20).map(|_| {
        let (client, path, body) =
            (Client::new(&service.base_url, &service.key()), path.clone(), body.clone());
        async move { client.post(&path, &body).await.status }
    });
    let answers = posts.collect::<tokio::task::JoinSet<_>>().join_all().await;
    let accepted = answers.iter().filter(|status| **status == 201).count();
    assert!(accepted <= 5, "{answers:?}");
    for _ in accepted..5 {
        service.request_upload(&case, PNG, "image/png").await;
    }
    let refused = service.post(&evidence_path(&case), &body).await;
    assert_eq!(refused.problem(), (422, "invalid_request_error", "unprocessable_entity"));
    // Another case of the account is not affected.
    let (_, ticket) = service.ticket(PNG, "image/png").await;
    assert_eq!(ticket["object"], "med_case_evidence_upload");
}
