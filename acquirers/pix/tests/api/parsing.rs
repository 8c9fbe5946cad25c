//! Tolerant parsing of objects.

use api_pix::{
    Cob, CobStatus, Devolucao, DevolucaoStatus, Nature, ParseError, Payer, Pix, PixOut, PixOutStatus,
};
use serde_json::{Value, json};

use crate::support::{CPF, reais, tax_id};

fn cob() -> Value {
    json!({
        "txid": "charge00000000000000000000000001",
        "status": "ATIVA",
        "calendario": {"criacao": "2026-11-22T09:00:00.000-03:00", "expiracao": 3600},
        "valor": {"original": "10.00"},
    })
}

fn pix() -> Value {
    json!({"endToEndId": "E1", "valor": "10.00", "horario": "2026-11-22T12:00:00Z"})
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap().as_object_mut().unwrap().insert(field.to_owned(), value);
    object
}

#[test]
fn a_cob_needs_only_what_the_client_uses() {
    let parsed = Cob::parse(&cob()).unwrap();
    assert_eq!(parsed.created_at.to_iso(), "2026-11-22T12:00:00.000Z");
    assert_eq!((parsed.expires_in_seconds, parsed.amount), (3_600, reais(10)));
    assert_eq!((parsed.key, parsed.location, parsed.copia_e_cola), (None, None, None));
    assert_eq!((parsed.pix, parsed.malformed), (vec![], vec![]));
}

#[test]
fn unknown_fields_and_values_of_a_cob_are_tolerated() {
    let odd = json!({
        "txid": "t1",
        "status": "EM_ANALISE",
        "calendario": {"criacao": "2026-11-22T12:00:00Z", "expiracao": "3600", "novo": 1},
        "valor": {"original": "0.01", "modalidadeAlteracao": 9},
        "chave": null,
        "devedor": "unknown",
        "loc": 5,
        "pixCopiaECola": "",
        "pix": {"other": true},
        "novo": [1, {"a": null}],
    });
    let parsed = Cob::parse(&odd).unwrap();
    assert_eq!(parsed.status, CobStatus::Other("EM_ANALISE".to_owned()));
    assert_eq!(parsed.status.as_str(), "EM_ANALISE");
    assert_eq!((parsed.expires_in_seconds, parsed.key, parsed.copia_e_cola), (3_600, None, None));
    assert_eq!(parsed.raw.as_map()["novo"], json!([1, {"a": null}]));
}

#[test]
fn both_spellings_of_a_removed_cob_are_known() {
    for (text, expected) in [
        ("ATIVA", CobStatus::Active),
        ("CONCLUIDA", CobStatus::Completed),
        ("REMOVIDA_PELO_USUARIO_RECEBEDOR", CobStatus::RemovedByReceiver),
        ("REMOVIDO_PELO_USUARIO_RECEBEDOR", CobStatus::RemovedByReceiver),
        ("REMOVIDA_PELO_PSP", CobStatus::RemovedByPsp),
        ("REMOVIDO_PELO_PSP", CobStatus::RemovedByPsp),
    ] {
        assert_eq!(Cob::parse(&with(cob(), "/status", text.into())).unwrap().status, expected);
    }
}

#[test]
fn a_location_is_in_either_field_and_loses_its_scheme() {
    let location = |cob: Value| Cob::parse(&cob).unwrap().location;
    let expected = Some("pix.example.com/qr/1".to_owned());
    assert_eq!(location(with(cob(), "/location", "pix.example.com/qr/1".into())), expected);
    assert_eq!(location(with(cob(), "/location", "https://pix.example.com/qr/1".into())), expected);
    assert_eq!(location(with(cob(), "/loc", json!({"location": "https://pix.example.com/qr/1"}))), expected);
    let both = with(cob(), "/loc", json!({"location": "other.example.com"}));
    assert_eq!(location(with(both, "/location", "pix.example.com/qr/1".into())), expected);
}

#[test]
fn an_absent_expiry_is_a_day() {
    let calendar = |expiry: Value| with(cob(), "/calendario/expiracao", expiry);
    assert_eq!(Cob::parse(&calendar(Value::Null)).unwrap().expires_in_seconds, 86_400);
}

#[test]
fn a_cob_without_amount_or_creation_is_malformed() {
    for (pointer, value, field) in [
        ("/txid", Value::Null, "txid"),
        ("/status", json!(5), "status"),
        ("/valor", json!("10.00"), "valor"),
        ("/valor/original", json!(10.001), "original"),
        ("/valor/original", json!("10,00"), "original"),
        ("/calendario", Value::Null, "calendario"),
        ("/calendario/criacao", json!("2026-11-22T12:00:00"), "criacao"),
        ("/calendario/expiracao", json!(0), "expiracao"),
        ("/calendario/expiracao", json!(1.5), "expiracao"),
    ] {
        let error = Cob::parse(&with(cob(), pointer, value)).unwrap_err();
        assert_eq!(error.field, field, "{pointer}");
    }
    assert!(Cob::parse(&json!("cob")).is_err());
}

#[test]
fn an_amount_may_lack_zeros_or_be_a_number() {
    for (written, minor) in
        [(json!("19.9"), 1_990), (json!("19"), 1_900), (json!(19.9), 1_990), (json!(19), 1_900)]
    {
        let returned = json!([{"id": "r1", "valor": written, "status": "DEVOLVIDO"}]);
        let pix = with(with(pix(), "/valor", written.clone()), "/devolucoes", returned);
        let cob = Cob::parse(&with(with(cob(), "/valor/original", written.clone()), "/pix", json!([pix])));
        let cob = cob.unwrap();
        let amounts = [cob.amount, cob.pix[0].amount, cob.pix[0].returns[0].amount];
        assert_eq!(amounts.map(domain::money::Amount::minor), [minor; 3], "{written}");
    }
    for written in [json!(0), json!(-1), json!(0.001), json!(1e16), json!(true)] {
        Pix::parse(&with(pix(), "/valor", written.clone())).unwrap_err();
    }
}

#[test]
fn a_malformed_pix_does_not_hide_the_status_of_its_cob() {
    let parsed = Cob::parse(&with(cob(), "/pix", json!([pix(), {"endToEndId": "E2"}]))).unwrap();
    assert_eq!((parsed.pix.len(), parsed.malformed.len()), (1, 1));
    assert_eq!(parsed.malformed[0].end_to_end_id.as_deref(), Some("E2"));
}

#[test]
fn only_a_whole_valid_document_names_a_payer() {
    for (payer, expected) in [
        (json!({"cpf": CPF, "nome": "Maria"}), Payer::Document(tax_id(CPF))),
        (json!({"cnpj": "12ABC34501DE35"}), Payer::Document(tax_id("12ABC34501DE35"))),
        (json!({"cpf": null, "cnpj": "12ABC34501DE35"}), Payer::Document(tax_id("12ABC34501DE35"))),
        (json!({"cpf": "***982247**"}), Payer::Masked),
        (json!({"cpf": "529.982.247-25"}), Payer::Document(tax_id(CPF))),
        (json!({"cnpj": "12.ABC.345/01DE-35"}), Payer::Document(tax_id("12ABC34501DE35"))),
        (json!({"cpf": "***.982.247-**"}), Payer::Masked),
        // The check digits are wrong.
        (json!({"cpf": "52998224726"}), Payer::Masked),
        (json!({"cpf": "982247"}), Payer::Masked),
        (json!({"cpf": 52_998_224_725_i64}), Payer::Masked),
        // A document in the field of the other form.
        (json!({"cpf": "12ABC34501DE35"}), Payer::Masked),
        (json!({"cnpj": CPF}), Payer::Masked),
        (json!({"cnpj": "12abc34501de35"}), Payer::Masked),
        (json!({"cpf": CPF, "cnpj": "12ABC34501DE35"}), Payer::Masked),
        (json!({"cpf": "", "cnpj": null, "nome": "Maria"}), Payer::NotReported),
        (json!({"nome": "Maria"}), Payer::NotReported),
        (json!("Maria"), Payer::NotReported),
        (Value::Null, Payer::NotReported),
    ] {
        let parsed = Pix::parse(&with(pix(), "/pagador", payer.clone())).unwrap();
        assert_eq!(parsed.payer, expected, "{payer}");
        let document = if let Payer::Document(document) = expected { Some(document) } else { None };
        assert_eq!(parsed.payer.document(), document);
    }
    assert_eq!(Pix::parse(&pix()).unwrap().payer, Payer::NotReported);
}

#[test]
fn unknown_fields_and_values_of_a_pix_are_tolerated() {
    let odd = json!({
        "endToEndId": "E1803615022211340s08793XPJ",
        "txid": "",
        "valor": "10.00",
        "horario": "2026-11-22T12:00:00.123456Z",
        "chave": 7,
        "gnExtras": {"tarifa": "0.10"},
        "devolucoes": [{
            "id": "r1", "rtrId": "not an id", "valor": "1.00", "status": "NOVO", "natureza": "NOVA",
            "horario": {"solicitacao": "yesterday"}, "motivo": null,
        }],
    });
    let parsed = Pix::parse(&odd).unwrap();
    assert_eq!((parsed.txid, parsed.key), (None, None));
    assert_eq!(parsed.at.to_iso(), "2026-11-22T12:00:00.123Z");
    assert_eq!(
        parsed.returns,
        [Devolucao {
            id: "r1".to_owned(),
            rtr_id: None,
            amount: reais(1),
            nature: Nature::Other("NOVA".to_owned()),
            status: DevolucaoStatus::Other("NOVO".to_owned()),
            requested_at: None,
            settled_at: None,
            reason: None,
        }]
    );
}

#[test]
fn natures_and_statuses_are_known() {
    let devolucao = |nature: Value, status: &str| {
        let value = json!({"id": "r1", "valor": "1.00", "status": status, "natureza": nature});
        let parsed = Devolucao::parse(&value).unwrap();
        (parsed.nature, parsed.status)
    };
    for (text, nature) in [
        (Value::Null, Nature::Original),
        ("ORIGINAL".into(), Nature::Original),
        ("RETIRADA".into(), Nature::Withdrawal),
        ("MED_OPERACIONAL".into(), Nature::MedOperational),
        ("MED_FRAUDE".into(), Nature::MedFraud),
        ("MED_PIX_AUTOMATICO".into(), Nature::MedAutomaticPix),
    ] {
        assert_eq!(devolucao(text, "DEVOLVIDO"), (nature, DevolucaoStatus::Returned));
    }
    assert_eq!(devolucao(Value::Null, "EM_PROCESSAMENTO").1, DevolucaoStatus::InProgress);
    assert_eq!(devolucao(Value::Null, "NAO_REALIZADO").1, DevolucaoStatus::NotRealised);
    let pix_out = json!({"id": "o1", "valor": "1.00", "status": "OUTRO"});
    assert_eq!(PixOut::parse(&pix_out).unwrap().status, PixOutStatus::Other("OUTRO".to_owned()));
}

#[test]
fn a_pix_with_a_return_that_can_not_be_read_is_malformed() {
    for returns in [json!([{"id": "r1"}]), json!({"id": "r1"}), json!(["r1"])] {
        assert!(Pix::parse(&with(pix(), "/devolucoes", returns.clone())).is_err(), "{returns}");
    }
    assert!(Pix::parse(&with(pix(), "/devolucoes", Value::Null)).is_ok());
}

#[test]
fn an_error_names_the_field_and_does_not_repeat_its_content() {
    let error = Pix::parse(&with(pix(), "/endToEndId", CPF.replace('5', "-").into())).unwrap_err();
    assert_eq!(error, ParseError { field: "endToEndId", expected: "1 to 64 letters and digits" });
    assert_eq!(error.to_string(), "`endToEndId` must be 1 to 64 letters and digits");
}
