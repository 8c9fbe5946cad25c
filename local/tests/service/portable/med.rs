//! The routes of the function `med`: MED cases and their evidence, under two prefixes.

use axum::http::Method;
use serde_json::{Value, json};

use super::{Portable, Routes, UNKNOWN_ID};
use crate::support::{Answer, id};

pub(super) const ROUTES: &Routes = &[
    ("GET /v1/med/cases", &[200, 400, 401]),
    ("GET /v1/med/cases/{id}", &[200, 400, 401, 404]),
    ("POST /v1/med/cases/{id}/appeal", &[200, 400, 401, 404]),
    ("POST /v1/med/cases/{id}/accept", &[200, 400, 401, 404]),
    ("GET /v1/med/cases/{id}/evidence", &[200, 400, 401, 404]),
    ("POST /v1/med/cases/{id}/evidence", &[201, 400, 401, 404, 422]),
    ("POST /v1/med/cases/{id}/evidence/{evidence_id}/complete", &[200, 400, 401, 404, 409]),
    ("GET /v1/infractions", &[200, 400, 401]),
    ("GET /v1/infractions/{id}", &[200, 400, 401, 404]),
    ("POST /v1/infractions/{id}/appeal", &[200, 400, 401, 404]),
    ("POST /v1/infractions/{id}/accept", &[200, 400, 401, 404]),
    ("GET /v1/infractions/{id}/evidence", &[200, 400, 401, 404]),
    ("POST /v1/infractions/{id}/evidence", &[201, 400, 401, 404, 422]),
    ("POST /v1/infractions/{id}/evidence/{evidence_id}/complete", &[200, 400, 401, 404, 409]),
];

/// The number of routes of one prefix.
const ROUTES_OF_PREFIX: usize = 7;

/// The most confirmed files of a case.
const MOST_FILES: usize = 50;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand so on";

impl Portable {
    async fn announce(&self, route: &'static str, case: &Value) -> Answer {
        let body = json!({"file_name": "prova.png", "file_size": PNG.len(), "mime_type": "image/png"});
        self.call(route).id(id(case)).json(&body).send().await
    }

    async fn upload(&self, ticket: &Value) {
        let headers = [("content-type", "image/png")];
        let url = ticket["upload_url"].as_str().unwrap();
        let sent = self.client.raw(Method::PUT, url, &headers, PNG.to_vec()).await;
        assert_eq!(sent.status, 200, "{:?}", sent.bytes);
    }

    /// Opens a case and uploads as many files as it can have.
    async fn full_case(&self) -> Value {
        let case = self.case().await;
        for _ in 0..MOST_FILES {
            let ticket = self.announce("POST /v1/med/cases/{id}/evidence", &case).await.expect(201);
            self.upload(&ticket).await;
            let confirm = self.call("POST /v1/med/cases/{id}/evidence/{evidence_id}/complete");
            confirm.id(id(&case)).id(id(&ticket)).send().await.expect(200);
        }
        case
    }
}

#[tokio::test]
async fn cases_and_evidence_answer_with_every_status() {
    let service = Portable::start().await;
    let full = service.full_case().await;
    for routes in ROUTES.chunks(ROUTES_OF_PREFIX) {
        let [list, read, appeal, accept, evidence, announce, complete] = routes else {
            panic!("{routes:?}");
        };
        let case = service.case().await;
        let listed = service.call(list.0).query("limit=100").send().await.expect(200);
        assert!(listed["data"].as_array().unwrap().iter().any(|found| found["id"] == case["id"]));
        assert_eq!(service.call(read.0).id(id(&case)).send().await.expect(200)["id"], case["id"]);

        let ticket = service.announce(announce.0, &case).await.expect(201);
        let confirm = async || service.call(complete.0).id(id(&case)).id(id(&ticket)).send().await;
        assert_eq!(confirm().await.problem(), (409, "conflict_error", "EVIDENCE_NOT_UPLOADED"));
        service.upload(&ticket).await;
        let confirmed = confirm().await.expect(200);
        assert_eq!(confirmed["id"], ticket["id"]);
        let files = service.call(evidence.0).id(id(&case)).send().await.expect(200);
        assert_eq!(files["data"].as_array().unwrap().len(), 1);
        let url = files["data"][0]["view_url"].as_str().unwrap().to_owned();
        let downloaded = service.client.raw(Method::GET, &url, &[], "").await;
        assert_eq!((downloaded.status.as_u16(), downloaded.bytes.as_ref()), (200, PNG));
        let too_many = service.announce(announce.0, &full).await;
        assert_eq!(too_many.problem(), (422, "invalid_request_error", "unprocessable_entity"));

        let reason = json!({"reason": "Entregue em 3 de novembro"});
        let appealed = service.call(appeal.0).id(id(&case)).json(&reason).send().await.expect(200);
        assert_eq!(appealed["status"], "appealed");
        let again = service.call(accept.0).id(id(&case)).json(&json!({})).send().await;
        assert_eq!(again.problem(), (400, "invalid_request_error", "invalid_request"));
        let other = service.case().await;
        let accepted = service.call(accept.0).id(id(&other)).json(&json!({})).send().await.expect(200);
        assert_eq!((&accepted["status"], &accepted["money_outcome"]), (&json!("accepted"), &json!("lost")));
        let missing = service.call(complete.0).id(id(&case)).id(UNKNOWN_ID).send().await;
        assert_eq!(missing.problem(), (404, "not_found_error", "not_found"));
    }
    let case = service.case().await;
    service.refuse(ROUTES, |_| id(&case).to_owned()).await;
    service.check_statuses(ROUTES);
}
