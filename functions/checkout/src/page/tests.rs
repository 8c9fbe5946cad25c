use screen_reader::{Page, Role};
use serde_json::{Value, json};

use super::*;
use crate::tests::{RAW_ID, at, br_code, charge};

const BEFORE_THE_DEADLINE: &str = "2026-11-21T18:00:00Z";
const AFTER_THE_DEADLINE: &str = "2026-11-21T18:05:00Z";

fn page_in(language: Language, now: &str, differs: &Value) -> RenderedPage {
    render(charge(differs).as_stored(), &Brand::default(), None, at(now), language)
}

fn branded(differs: &Value, brand: &Value) -> RenderedPage {
    let brand = serde_json::from_value(brand.clone()).unwrap();
    render(charge(differs).as_stored(), &brand, None, at(BEFORE_THE_DEADLINE), Language::Portuguese)
}

fn page_at(now: &str, differs: &Value) -> Page {
    Page::read(&page_in(Language::Portuguese, now, differs).html)
}

fn page(differs: &Value) -> Page {
    page_at(BEFORE_THE_DEADLINE, differs)
}

/// A payment with the payer's document, which the page must not show.
fn applied_payment() -> Value {
    json!({
        "payment_id": "E00000000202611211802a1b2c3d4e5f",
        "method": "pix",
        "paid_at": at("2026-11-21T18:02:00Z").millis(),
        "payer_document": "52998224725",
    })
}

/// Returns the text between an element's tags, which is the text that a browser hashes.
fn inner<'a>(page: &'a str, element: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("<{element}>")).unwrap();
    let (inside, rest) = rest.split_once(&format!("</{element}>")).unwrap();
    assert!(!rest.contains(&format!("<{element}")), "the page has more than one {element}");
    inside
}

#[test]
fn a_payable_charge_shows_everything_that_is_needed_to_pay_it() {
    let page = page(&json!({"metadata": json!({"description": "Pedido 42"}).to_string()}));
    assert_eq!((page.language(), page.names(Role::Heading)[0].as_str()), ("pt-BR", "Pague com Pix"));
    for (name, value) in [("Para", "Loja do Bairro"), ("Valor", "R$ 1.234,56"), ("Descrição", "Pedido 42")]
    {
        assert_eq!(page.values(name), [value]);
    }
    assert!(page.contains("Pague até 21/11/2026 às 15:04 (horário de Brasília)."), "{page}");
    assert_eq!(page.get(Role::Field, "Pix copia e cola").value(), br_code("Loja do Bairro"));
    let qr_code = page.get(Role::Image, "QR code Pix desta cobrança");
    assert_eq!(qr_code.attribute("src"), Some(&*format!("{RAW_ID}/qr.png")));
    for expected in
        ["Copiar código", r#"<meta http-equiv="refresh" content="30">"#, r#"data-refresh="5 5 10 15 25 40""#]
    {
        assert!(page.source().contains(expected), "{expected}");
    }
    assert!(!page.contains("Ambiente de teste"));
}

#[test]
fn a_payer_who_came_back_is_asked_to_pay_again_only_if_the_acquirer_says_so() {
    let came_at = at("2026-11-21T17:50:00Z");
    let look = format!(r#"data-look="{RAW_ID}/card?back={}""#, came_at.millis());
    for (after_s, seen, title, message, looks, has_code) in [
        (0, None, "Confirmando", "Não pague de novo", true, false),
        (59, Some((Seen::InProgress, 10)), "Confirmando", "Não pague de novo", true, false),
        (60, None, "Pague com Pix", "Ainda não sabemos", true, true),
        (60, Some((Seen::Open, -1)), "Pague com Pix", "Ainda não sabemos", true, true),
        (4, Some((Seen::Open, 1)), "Pague com Pix", "não foi concluído", false, true),
        (600, Some((Seen::Paid, 1)), "Confirmando", "Não pague de novo", true, false),
        (1_800, None, "Pague com Pix", "Ainda não sabemos", false, true),
    ] {
        let now = came_at.plus_seconds(after_s).unwrap();
        let seen = seen.map(|(seen, at_s)| (seen, came_at.plus_seconds(at_s).unwrap()));
        let back = Some(Back { at: came_at, seen, cancelled: false });
        let expires_at = now.plus_seconds(60).unwrap().millis();
        let pix = json!({"br_code": br_code("Loja"), "expires_at": expires_at, "ttl_seconds": 3600});
        let charge = charge(&json!({"artefacts": {"pix": pix}}));
        let page = render(charge.as_stored(), &Brand::default(), back, now, Language::Portuguese).html;
        let page = Page::read(&page);
        assert!(page.contains(title) && page.contains(message), "{after_s}: {page}");
        let shown = (page.source().contains(&look), !page.all(Role::Image).is_empty());
        assert_eq!(shown, (looks, has_code), "{after_s}: {page}");
    }
    // Who gave up on the acquirer's page pays again at once, unless the acquirer says otherwise.
    for (seen, message, has_code) in [
        (None, "não foi concluído", true),
        (Some((Seen::Open, came_at)), "não foi concluído", true),
        (Some((Seen::InProgress, came_at)), "Não pague de novo", false),
        (Some((Seen::Paid, came_at)), "Não pague de novo", false),
    ] {
        let back = Some(Back { at: came_at, seen, cancelled: true });
        let pix =
            json!({"br_code": br_code("Loja"), "expires_at": came_at.millis() + 60_000, "ttl_seconds": 3600});
        let charge = charge(&json!({"artefacts": {"pix": pix}}));
        let page = render(charge.as_stored(), &Brand::default(), back, came_at, Language::Portuguese).html;
        let page = Page::read(&page);
        assert!(page.contains(message), "{seen:?}: {page}");
        assert_eq!(!page.all(Role::Image).is_empty(), has_code, "{seen:?}: {page}");
    }
}

#[test]
fn a_charge_that_the_sandbox_expires_early_shows_when_it_did() {
    let at = at("2026-11-21T17:30:00Z").millis();
    let failure = json!({"reason": "expired", "providerErrorCode": "expired", "at": at});
    let page = page(&json!({"status": "EXPIRED", "failure": failure}));
    assert!(page.contains("terminou em 21/11/2026 às 14:30"), "{page}");
}

#[test]
fn a_charge_that_is_not_payable_has_a_page_for_its_state_without_a_code() {
    let (before, after) = (BEFORE_THE_DEADLINE, AFTER_THE_DEADLINE);
    for (now, status, title, message, refresh) in [
        (before, "PENDING", "Preparando o pagamento", "em instantes", Some("5 5 10 15 25 40")),
        (
            after,
            "WAITING_PAYMENT",
            "Verificando o pagamento",
            "terminou em 21/11/2026 às 15:04",
            Some("5 5 10 15 25 40"),
        ),
        (before, "PROCESSING", "Pagamento em análise", "Não pague de novo", Some("60")),
        (after, "PAID", "Pagamento confirmado", "Pago em 21/11/2026 às 15:02", None),
        (after, "APPROVED", "Pagamento confirmado", "Recebemos o seu pagamento", None),
        (after, "REFUSED", "Pagamento recusado", "peça uma nova", None),
        (after, "CANCELLED", "Cobrança cancelada", "não pode mais ser paga", None),
        (after, "EXPIRED", "Cobrança expirada", "terminou em 21/11/2026 às 15:04", None),
        (after, "REFUNDED", "Pagamento devolvido", "foi devolvido", None),
        (after, "DISPUTE", "Pagamento em disputa", "foi contestado", None),
        (after, "CHARGEBACK", "Pagamento em disputa", "foi contestado", None),
    ] {
        let mut differs = json!({"scope": "acc_0123456789abcdef:test", "status": status});
        if matches!(status, "PROCESSING" | "PAID") {
            differs["receipt"] = applied_payment();
        }
        let page = page_at(now, &differs);
        assert_eq!(page.names(Role::Heading), [title]);
        assert_eq!(page.title(), format!("{title}: R$ 1.234,56 para Loja do Bairro"));
        assert!(page.contains(message) && page.contains("Ambiente de teste"), "{title}");
        let refreshes = refresh.map(|seconds: &str| format!(r#"<body data-refresh="{seconds}""#));
        assert_eq!(page.source().contains("http-equiv"), refreshes.is_some(), "{title}");
        assert!(refreshes.is_none_or(|body| page.source().contains(&body)), "{title}");
        for only_when_payable in ["br.gov.bcb.pix", "qr.png", "<input", "<button", "<form", "Simular"] {
            assert!(!page.source().contains(only_when_payable), "{title}: {only_when_payable}");
        }
    }
}

#[test]
fn the_page_says_that_a_payment_came_that_the_charge_did_not_take() {
    let paid_at = at("2026-11-21T18:02:00Z").millis();
    let returned = json!([{
        "id": "E00000000202611211802a1b2c3d4e5f", "method": "pix", "amount": 1, "reason": "late",
        "status": "returned", "paid_at": paid_at, "at": paid_at,
    }]);
    for status in ["EXPIRED", "CANCELLED"] {
        let back = page(&json!({"status": status, "returned": returned}));
        assert!(back.contains("volta para quem o fez"), "{back}");
        let waits = page(&json!({"status": status, "unapplied": ["pi_1"]}));
        assert!(waits.contains("não foi aceito por esta cobrança. Fale com a loja."), "{waits}");
        assert!(!page(&json!({"status": status})).contains("pagamento que chegou"));
    }
}

#[test]
fn a_charge_is_payable_up_to_and_including_the_deadline() {
    assert!(page_at("2026-11-21T18:04:30Z", &json!({})).has(Role::Heading, "Pague com Pix"));
    assert!(page_at("2026-11-21T18:04:30.001Z", &json!({})).has(Role::Heading, "Verificando o pagamento"));
}

#[test]
fn html_in_values_is_escaped_and_characters_that_reorder_text_are_removed() {
    let reordered = "Pedido \u{202e}24\u{2066}\u{0} de\nMaria";
    let cleaned = page(&json!({"metadata": json!({ "description": reordered }).to_string()}));
    assert!(cleaned.source().contains("Pedido 24 de\nMaria</dd>"), "{cleaned}");
    let name = r#""><script>x</script>"#;
    let description = r#"</dd></style><script>alert(1)</script> "a" & 'b' <img src=x onerror=y>"#;
    let page = page(&json!({
        "metadata": json!({"description": description}).to_string(),
        "artefacts": {"pix": {
            "br_code": br_code(name),
            "expires_at": at("2026-11-21T18:04:30Z").millis(),
            "ttl_seconds": 60,
        }},
    }));
    assert_eq!(
        (page.values("Descrição"), page.values("Para")),
        (vec![description.into()], vec![name.into()])
    );
    assert!(!page.source().contains("<img src=x") && page.source().matches("<script>").count() == 1);
}

#[test]
fn only_the_description_of_the_metadata_is_shown_and_no_data_of_customer_or_payer() {
    for status in ["WAITING_PAYMENT", "PROCESSING", "PAID", "EXPIRED", "REFUNDED", "DISPUTE"] {
        let page = page(&json!({
            "status": status,
            "customer": {
                "name": "Maria Cliente",
                "document": "52998224725",
                "email": "maria@example.com",
                "phone": "+5511987654321",
            },
            "expected_payer": "52998224725",
            "receipt": applied_payment(),
            "failure": {"reason": {"in_words": {"text": "secret reason", "code": "code-7"}}, "at": 0},
            "metadata": json!({"description": "Pedido 42", "internal_note": "lucro de 80 %"}).to_string(),
        }));
        assert!(page.contains("Pedido 42"));
        for hidden in [
            "Maria",
            "52998224725",
            "maria@",
            "98765",
            "internal_note",
            "lucro",
            "secret",
            "code-7",
            "acc_0123",
            "hash-of-the-request",
        ] {
            assert!(!page.source().contains(hidden), "{status}: {hidden}");
        }
    }
}

#[test]
fn the_page_has_no_line_for_an_absent_value() {
    for metadata in [json!({}), json!({"description": "  "}), json!({"description": {"not": "text"}})] {
        let page = page(&json!({"metadata": metadata.to_string()}));
        assert!(!page.contains("Descrição"), "{metadata}");
    }
    let unreadable = json!({"artefacts": {"pix": {
        "br_code": "not a BR Code",
        "expires_at": at("2026-11-21T18:04:30Z").millis(),
        "ttl_seconds": 60,
    }}});
    let page = page(&unreadable);
    assert!(page.values("Para").is_empty() && page.title() == "Pague com Pix: R$ 1.234,56", "{page}");
}

#[test]
fn the_content_security_policy_allows_the_style_and_script_of_the_pages() {
    let (now, language) = (at(BEFORE_THE_DEADLINE), Language::Portuguese);
    let errors = [not_found(now, language), unavailable(now, language)];
    let pages = [
        page_in(language, BEFORE_THE_DEADLINE, &json!({})),
        page_in(language, BEFORE_THE_DEADLINE, &json!({"status": "PAID"})),
        branded(&json!({}), &json!({"color": "#ffe08a"})),
    ];
    for RenderedPage { html: page, policy, .. } in pages.into_iter().chain(errors) {
        let expected = format!(
            "default-src 'none'; img-src 'self' data:; connect-src 'self'; style-src '{}'; script-src '{}'; \
             base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
            csp_source(inner(&page, "style")),
            csp_source(inner(&page, "script")),
        );
        assert_eq!(policy, expected);
        for outside_the_policy in [" style=", " onclick=", "javascript:", "http://", "https://", "\r"] {
            assert!(!page.contains(outside_the_policy), "{outside_the_policy:?}");
        }
    }
}

#[test]
fn the_page_has_the_brand_of_the_shop() {
    let logo = "a".repeat(64);
    let brand = json!({
        "name": "<b>Loja & Cia</b>", "color": "#ffe08a", "logo": logo,
        "email": "ajuda?bcc=x&y@loja.example", "phone": "(11) 4000-1234",
    });
    let open = Page::read(&branded(&json!({}), &brand).html);
    // The name is beside the logo, which is passed over.
    assert_eq!(open.get(Role::Image, "").attribute("src"), Some(&*format!("logos/{logo}.png")));
    assert!(open.contains(" <b>Loja & Cia</b> Pague com Pix "), "{open}");
    // The receiver remains as the payer's bank shows it.
    assert_eq!(open.values("Para"), ["Loja do Bairro"]);
    assert_eq!(
        open.links_to("mailto:"),
        ["mailto:ajuda%3Fbcc%3Dx%26y@loja.example"],
        "the payer may ask before"
    );
    for status in ["PAID", "EXPIRED", "REFUSED", "CANCELLED", "REFUNDED"] {
        let ended = Page::read(&branded(&json!({"status": status}), &brand).html);
        let contact = "Fale com a loja: ajuda?bcc=x&y@loja.example (11) 4000-1234";
        assert!(ended.contains(contact), "{status}: {ended}");
        assert_eq!(ended.links_to("mailto:"), ["mailto:ajuda%3Fbcc%3Dx%26y@loja.example"]);
        assert_eq!(ended.links_to("tel:"), ["tel:1140001234"]);
    }
    let plain = page(&json!({"status": "PAID"}));
    assert!(plain.all(Role::Image).is_empty() && !plain.contains("Fale com a loja:"), "{plain}");
}

#[test]
fn a_csp_source_equals_the_example_of_the_specification() {
    // The example is in CSP Level 2, "Hash usage for script elements".
    assert_eq!(csp_source("alert('Hello, world.');"), "sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng=");
}

#[test]
fn the_page_speaks_the_languages_of_its_readers() {
    for (language, tag, title, deadline) in [
        (Language::English, "en", "Pay by Pix", "Pay by 21/11/2026 15:04 (Brasília time)."),
        (Language::Spanish, "es", "Pague con Pix", "hasta el 21/11/2026 15:04 (hora de Brasilia)."),
    ] {
        let page = Page::read(&page_in(language, BEFORE_THE_DEADLINE, &json!({})).html);
        assert_eq!((page.language(), page.names(Role::Heading)[0].as_str()), (tag, title));
        assert!(page.contains(deadline), "{page}");
        let portuguese = page.get(Role::Link, "Português");
        assert_eq!((portuguese.target(), portuguese.attribute("lang")), ("?lang=pt-BR", Some("pt-BR")));
    }
}

#[test]
fn two_pages_of_one_state_have_one_tag_and_a_new_state_has_another() {
    let tag = |now: &str, differs: &Value| page_in(Language::Portuguese, now, differs).etag;
    let first = tag("2026-11-21T18:00:00Z", &json!({}));
    assert!(first.starts_with("W/\""));
    assert_eq!(first, tag("2026-11-21T18:00:03Z", &json!({})));
    assert_ne!(first, tag("2026-11-21T18:00:03Z", &json!({"status": "PAID"})));
    assert_ne!(first, page_in(Language::English, "2026-11-21T18:00:00Z", &json!({})).etag);
}

#[test]
fn a_pix_is_returned_and_a_card_payment_reversed() {
    for (method, heading) in [("pix", "Pagamento devolvido"), ("credit_card", "Pagamento estornado")] {
        let page = page(&json!({"status": "REFUNDED", "methods": [method]}));
        assert_eq!(page.names(Role::Heading), [heading]);
    }
}

#[test]
fn a_declined_try_and_a_part_that_was_refunded_have_a_line() {
    let card = |status: &str| json!({"status": status, "methods": ["credit_card", "pix"], "last_decline": "card_declined"});
    let declined = "A última tentativa de pagamento foi recusada";
    assert!(page(&card("WAITING_PAYMENT")).contains(declined));
    assert!(!page(&card("PROCESSING")).contains(declined), "another try is under way");
    let funds = json!({"refunded_devolution": 23_456});
    let paid = page(&json!({"status": "PAID", "applied_payment": applied_payment(), "funds": funds}));
    assert!(paid.contains("A loja já devolveu R$ 234,56 deste valor."), "{paid}");
    assert!(!page(&json!({"status": "PAID"})).contains("deste valor"));
}

#[test]
fn the_last_quarter_of_a_methods_own_time_is_counted_down() {
    // The charge was created at 17:04:30 and the code expires an hour later.
    let page = page(&json!({}));
    let ends = at("2026-11-21T18:04:30Z").millis();
    assert!(page.source().contains(&format!("data-ends=\"{ends}\" data-quarter=\"900000\"")), "{page}");
}

#[test]
fn an_end_leads_back_to_the_shop_if_the_shop_named_a_url_of_the_web() {
    for status in ["PAID", "EXPIRED", "REFUSED", "CANCELLED"] {
        let with =
            |url: &str| page(&json!({"status": status, "metadata": json!({"returnUrl": url}).to_string()}));
        let back = with("https://loja.example/pedidos/7?a=1&b=2").get(Role::Link, "Voltar à loja");
        assert_eq!(back.target(), "https://loja.example/pedidos/7?a=1&b=2");
        assert_eq!(back.attribute("rel"), Some("noreferrer"), "{status}");
        for url in ["javascript:alert(1)", "/pedidos/7", "https://a:b@loja.example", "data:text/html,x"] {
            assert!(!with(url).contains("Voltar"), "{url}");
        }
    }
}

#[test]
fn a_paid_charge_shows_order_time_and_transaction() {
    let page = page(&json!({
        "status": "PAID", "receipt": applied_payment(), "metadata": json!({"order_id": 4711}).to_string(),
    }));
    let end_to_end_id = "E00000000202611211802a1b2c3d4e5f";
    for (name, value) in [("Pedido", "4711"), ("Pago com", "Pix"), ("Id da transação", end_to_end_id)] {
        assert_eq!(page.values(name), [value], "{page}");
    }
}

#[test]
fn the_page_is_small() {
    let page = branded(
        &json!({"scope": "acc_0123456789abcdef:test", "metadata": json!({"order_id": "4711", "description": "Pedido 42"}).to_string()}),
        &json!({"name": "Loja do Bairro", "color": "#ffe08a", "logo": "a".repeat(64)}),
    )
    .html;
    assert!(page.len() <= 15 * 1024, "{}", page.len());
}

#[test]
fn each_method_is_shown_until_it_expires() {
    let ends = |text: &str| at(text).millis();
    let differs = json!({
        "currency": "EUR",
        "methods": ["multibanco", "mbway", "credit_card"],
        "artefacts": {
            "multibanco": {"entity": "00000", "reference": "123456789", "expires_at": ends("2026-11-24T17:04:30Z")},
            "mbway": {"phone": "+351912345678", "expires_at": ends("2026-11-21T17:08:30Z")},
            "card": {"expires_at": ends("2026-11-22T17:04:30Z")},
        },
    });
    let first = page_at("2026-11-21T17:05:00Z", &differs);
    assert!(first.has(Role::Heading, "Pague esta cobrança"), "{first}");
    for (name, value) in [("Valor", "EUR 1.234,56"), ("Entidade", "00000"), ("Referência", "123456789")] {
        assert_eq!(first.values(name), [value]);
    }
    for expected in ["terminado em 678", "Pague até 21/11/2026 às 14:08 (horário de Brasília)."] {
        assert!(first.contains(expected), "{expected}: {first}");
    }
    assert_eq!(first.names(Role::Summary), ["Multibanco", "MB WAY", "Cartão de crédito"]);
    let open = r#"<details class="way" name="method" open>"#;
    assert_eq!(first.source().matches(open).count(), 1, "{first}");
    assert_eq!(first.get(Role::Link, "Pagar com cartão").target(), format!("{RAW_ID}/card"));
    let is_whole = first.source().contains("QR code") || first.source().contains("91234");
    assert!(!is_whole, "no QR code, and only the last digits of the phone number");
    let later = page_at("2026-11-21T17:09:00Z", &differs);
    assert!(later.contains("Entidade") && !later.contains("MB WAY"), "{later}");
}
