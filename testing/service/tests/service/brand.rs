//! Tests of the brand of a shop: its forms, its logo, and the pages that payers see.

use axum::http::Method;
use domain::ids::Mode;
use screen_reader::{Page, Role};
use serde_json::{Value, json};

use crate::dashboard::{Browser, location, shown};
use crate::support::{Answer, Service, id, raw_id, wait_until};

const SETTINGS: &str = "/dashboard/settings";
const NAME: &str = "Nome da loja";
const COLOR: &str = "Cor dos botões";
const EMAIL: &str = "E-mail de atendimento";
const PHONE: &str = "Telefone de atendimento, como (11) 4000-1234";
const LOGO: &str = "/dashboard/settings/logo";

/// A file of the size in pixels and at least `bytes` long.
pub(crate) fn png(width: u32, height: u32, bytes: usize) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_depth(png::BitDepth::One);
    if bytes > 0 {
        encoder.add_text_chunk("Comment".to_owned(), "x".repeat(bytes)).unwrap();
    }
    let rows = width.div_ceil(8) * height;
    let image = vec![0xff; usize::try_from(rows).unwrap()];
    encoder.write_header().unwrap().write_image_data(&image).unwrap();
    file
}

/// Sends a file as a browser without JavaScript does.
pub(crate) async fn upload(service: &Service, cookies: &str, mode: &str, file: &[u8]) -> Answer {
    let mut body = format!(
        "--b\r\nContent-Disposition: form-data; name=\"mode\"\r\n\r\n{mode}\r\n--b\r\n\
         Content-Disposition: form-data; name=\"logo\"; filename=\"../logo.png\"\r\nContent-Type: image/png\r\n\r\n"
    )
    .into_bytes();
    body.extend_from_slice(file);
    body.extend_from_slice(b"\r\n--b--\r\n");
    let headers = [
        ("cookie", cookies),
        ("sec-fetch-site", "same-origin"),
        ("content-type", "multipart/form-data; boundary=b"),
    ];
    service.raw(Method::POST, LOGO, &headers, body).await
}

async fn public(service: &Service, path: &str) -> Page {
    let page = service.raw(Method::GET, path, &[], "").await;
    assert_eq!(page.status, 200, "{path}");
    shown(&page)
}

fn checkout(charge: &Value) -> String {
    format!("/checkout/{}", raw_id(charge))
}

#[tokio::test]
async fn the_brand_of_the_settings_is_on_the_checkout_page() {
    let service = Service::start().await;
    let owner = Browser::owner(&service).await;
    let charge = service.charge().await;
    let typed = [
        (NAME, "Loja <b>do</b> Bairro"),
        (COLOR, "#FFE08A"),
        (EMAIL, "ajuda@loja.example"),
        (PHONE, "(11) 4000-1234"),
    ];
    assert_eq!(owner.submit(SETTINGS, "Salvar", &typed).await, "/dashboard/settings?done");
    let settings = owner.page(SETTINGS).await;
    for (label, value) in typed {
        let value = if label == COLOR { "#ffe08a" } else { value };
        assert_eq!(settings.get(Role::Field, label).value(), value);
    }
    assert!(
        settings.source().contains("fill=\"#000000\"")
            && settings.has(Role::Image, "A página de pagamento, como quem paga a vê")
    );
    let open = public(&service, &checkout(&charge)).await;
    assert!(open.contains("Loja <b>do</b> Bairro") && open.source().contains("--brand:#ffe08a;--on:#000000"));
    assert!(!open.source().contains("<b>do"), "{open}");
    let link = json!({"amount": 1990, "payment_methods": ["PIX"]});
    let link = service
        .post_as(&service.key(), "/v1/payment_links", &link, &[("idempotency-key", "link-0001")])
        .await
        .expect(201);
    let pay = public(&service, &format!("/pay/{}", id(&link))).await;
    let style = "/dashboard/assets/accent-ffe08a.css";
    assert!(pay.source().contains(&format!("href=\"{style}\"")), "{pay}");
    let style = service.raw(Method::GET, style, &[], "").await;
    assert!(String::from_utf8_lossy(&style.bytes).contains("--brand:#ffe08a;--on:#000000"), "{style:?}");
    // The audit names the member.
    let audit = owner.page("/dashboard/audit").await;
    assert!(audit.row("Marca alterada").contains("owner@loja.example"), "{audit}");
    // Empty fields remove what they had.
    let empty = [NAME, COLOR, EMAIL, PHONE].map(|label| (label, ""));
    assert_eq!(owner.submit(SETTINGS, "Salvar", &empty).await, "/dashboard/settings?done");
    let after = public(&service, &checkout(&charge)).await;
    assert!(!after.contains("do Bairro") && !after.source().contains("--brand:#ffe08a"), "{after}");

    // A brand that breaks a rule changes nothing.
    let long = "x".repeat(61);
    for (field, value) in [
        ("name", long.as_str()),
        ("name", "Loja \u{202e}oãn"),
        ("color", "red"),
        ("color", "#12345"),
        ("color", "#0}*{d:n"),
        ("email", "ana"),
        ("email", "ana@loja.example,eva@loja.example"),
        ("phone", "javascript:1"),
        ("phone", "12"),
    ] {
        let mut fields = vec![("mode", "test"), (field, value)];
        fields.extend((field != "name").then_some(("name", "Loja")));
        let refused = owner.post(SETTINGS, &fields).await;
        assert_eq!((refused.status.as_u16(), refused.header("location")), (400, None), "{value}");
        let invalid: Vec<Page> =
            shown(&refused).all(Role::Field).into_iter().filter(Page::is_invalid).collect();
        let [kept] = <[Page; 1]>::try_from(invalid).unwrap();
        assert_eq!((kept.attribute("name"), kept.value().as_str()), (Some(field), value));
        assert!(!kept.description().unwrap().is_empty(), "{field} {value}");
    }
    assert_eq!(owner.page(SETTINGS).await.get(Role::Field, NAME).value(), "");
}

#[tokio::test]
async fn a_logo_is_a_small_png_which_the_checkout_serves_until_it_is_removed() {
    let service = Service::start().await;
    let owner = Browser::owner(&service).await;
    let charge = service.charge().await;
    let refused = "/dashboard/settings?error=invalid_logo";
    for (what, file) in [
        ("nothing", vec![]),
        ("a picture of another kind", b"GIF89a\x01\x00\x01\x00\x80\x00\x00".to_vec()),
        ("a page", b"<!doctype html><script>alert(1)</script>".to_vec()),
        ("a truncated file", png(64, 64, 0)[..40].to_vec()),
        ("a file of over 30 KiB", png(64, 64, 30 * 1024)),
        ("huge dimensions", png(20_000, 20, 0)),
    ] {
        assert_eq!(location(&upload(&service, owner.cookies(), "test", &file).await), refused, "{what}");
    }
    let picture = upload(&service, owner.cookies(), "test", &vec![0; 2 * 1024 * 1024]).await;
    assert_eq!(location(&picture), refused, "the refusal names the limit");
    let malformed = owner.post(LOGO, &[("mode", "test")]).await;
    assert_eq!(malformed.status, 400);
    let of_other_mode = upload(&service, owner.cookies(), "live", &png(8, 8, 0)).await;
    assert_eq!(of_other_mode.status, 409, "the page was drawn for the other mode");

    let file = [png(400, 100, 20 * 1024).as_slice(), b"<script>alert(1)</script>"].concat();
    let done = "/dashboard/settings?done";
    assert_eq!(location(&upload(&service, owner.cookies(), "test", &file).await), done);
    // A change of the other fields leaves the logo.
    owner.submit(SETTINGS, "Salvar", &[(NAME, "Loja")]).await;
    let page = public(&service, &checkout(&charge)).await;
    // The name beside the logo says what it is.
    let logo = page.get(Role::Image, "");
    let logo = logo.attribute("src").unwrap().strip_prefix("logos/").unwrap();
    let path = format!("/checkout/logos/{logo}");
    assert_eq!(logo_of_settings(&owner).await, path);
    let served = service.raw(Method::GET, &path, &[], "").await;
    let encoded = artefacts::logo::logo(&file).unwrap();
    assert_eq!((served.status.as_u16(), served.bytes.as_ref()), (200, encoded.as_slice()));
    for (name, value) in [
        ("content-type", "image/png"),
        ("cache-control", "public, max-age=31536000, immutable"),
        ("x-content-type-options", "nosniff"),
    ] {
        assert_eq!(served.header(name), Some(value));
    }
    let other = "0".repeat(64);
    for name in ["x.png", &logo[..64], &format!("{other}.png"), "..%2Fevidence%2Fx.png", "%FF"] {
        let answer = service.raw(Method::GET, &format!("/checkout/logos/{name}"), &[], "").await;
        assert_eq!(answer.status, 404, "{name}");
    }
    // The file of a logo that is replaced or removed is deleted.
    let new = png(40, 10, 0);
    assert_eq!(location(&upload(&service, owner.cookies(), "test", &new).await), done);
    assert_eq!(service.raw(Method::GET, &path, &[], "").await.status, 404);
    assert_eq!(location(&upload(&service, owner.cookies(), "test", &new).await), done);
    let path = logo_of_settings(&owner).await;
    assert_eq!(service.raw(Method::GET, &path, &[], "").await.bytes, artefacts::logo::logo(&new).unwrap());
    let removed = owner.submit(SETTINGS, "Remover", &[]).await;
    assert_eq!(removed, done);
    assert_eq!(service.raw(Method::GET, &path, &[], "").await.status, 404);
    let page = public(&service, &checkout(&charge)).await;
    assert!(!page.has(Role::Image, "") && page.contains(" Loja Pague com Pix "), "{page}");
}

async fn logo_of_settings(owner: &Browser<'_>) -> String {
    owner.page(SETTINGS).await.get(Role::Image, "Logo").attribute("src").unwrap().to_owned()
}

#[tokio::test]
async fn a_receipt_has_the_payment_and_its_refunds_and_no_whole_document() {
    let service = Service::start().await;
    let owner = Browser::owner(&service).await;
    owner.submit(SETTINGS, "Salvar", &[(NAME, "Loja <b>do</b> Bairro"), (PHONE, "(11) 4000-1234")]).await;
    let body = json!({
        "amount": 12_990,
        "customer": {"name": "Maria <i>Aparecida Silva", "document": "29537995593", "email": "maria@example.com"},
        "metadata": {"order_id": "4711"},
    });
    let charge = service.new_charge(&body).await;
    let receipts =
        [format!("/dashboard/charges/{}/receipt", id(&charge)), format!("{}/receipt", checkout(&charge))];
    for path in &receipts {
        assert_eq!(owner.answer(path, &[]).await.status, 404, "an unpaid charge has no receipt: {path}");
    }
    let end_to_end_id = "E00000000202611211000abcdefghijk";
    service.sandbox(&charge, "pay", &json!({"end_to_end_id": end_to_end_id})).await;
    service.refund(&charge, "refund-0001", json!({"amount": 2_990})).await.expect(201);
    wait_until("the refund", async || owner.page(&receipts[0]).await.contains("R$ 29,90")).await;
    for path in &receipts {
        let page = owner.page(path).await;
        for shown in [
            "Comprovante",
            "Loja <b>do</b> Bairro",
            "R$ 129,90",
            "4711",
            "Pix",
            end_to_end_id,
            "R$ 29,90",
            "(11) 4000-1234",
            "Ambiente de teste",
        ] {
            assert!(page.contains(shown), "{path}: {shown}: {page}");
        }
        for hidden in
            ["29537995593", "295.379.955-93", "maria@example.com", "<b>do", "<i>", "<script>", " style="]
        {
            assert!(!page.source().contains(hidden), "{path}: {hidden}: {page}");
        }
    }
    let shops = owner.page(&receipts[0]).await;
    assert!(shops.contains("Aparecida") && shops.contains("***.379.955-**"), "{shops}");
    let payers = public(&service, &receipts[1]).await;
    assert!(
        !payers.source().contains("Maria") && !payers.source().contains("***."),
        "anyone who has the URL sees it: {payers}"
    );
    let paid = public(&service, &checkout(&charge)).await;
    let of_payer = format!("{}/receipt?lang=pt-BR", raw_id(&charge));
    assert_eq!(paid.get(Role::Link, "Comprovante de pagamento").target(), of_payer);
    let of_shop = owner.page(&format!("/dashboard/charges/{}", id(&charge))).await;
    assert_eq!(of_shop.get(Role::Link, "Comprovante de pagamento").target(), receipts[0]);
    // A receipt of another mode, or of another account.
    let live = Browser::owner(&service).await.in_mode(Mode::Live);
    assert_eq!(live.answer(&receipts[0], &[]).await.status, 404);
    for path in ["/checkout/none/receipt", "/checkout/%FF/receipt"] {
        assert_eq!(service.raw(Method::GET, path, &[], "").await.status, 404, "{path}");
    }
}
