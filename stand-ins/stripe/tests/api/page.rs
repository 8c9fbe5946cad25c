//! The payer's page.

use crate::support::{Answer, World};

async fn submit(world: &World, path: &str, form: &str) -> Answer {
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    world.api.send("POST", path, &headers, form.to_owned()).await.unwrap()
}

async fn show(world: &World, path: &str) -> Answer {
    world.api.send("GET", path, &[], String::new()).await.unwrap()
}

#[tokio::test]
async fn a_payer_is_declined_then_pays_and_returns() {
    let world = World::start().await;
    let session = world.session("ch_1").await;
    let path = session["url"].as_str().unwrap().strip_prefix(&world.api.url).unwrap().to_owned();
    let page = show(&world, &path).await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    for part in ["lang=\"pt-BR\"", "Pedido &lt;1&gt;", "BRL 100,00", "http://127.0.0.1:1/back"] {
        assert!(page.text.contains(part), "{part}: {}", page.text);
    }
    assert!(!page.text.contains("<script"));
    let declined = submit(&world, &path, "act=decline").await;
    assert_eq!((declined.status, declined.header("location")), (303, path.as_str()));
    assert!(show(&world, &path).await.text.contains("O cartão foi recusado"));
    let paid = submit(&world, &path, "act=pay&email=ana%40example.com&name=Ana").await;
    let id = session["id"].as_str().unwrap();
    assert_eq!(paid.header("location"), format!("http://127.0.0.1:1/done?session={id}"));
    assert_eq!(world.read_session(&session).await["customer_details"]["name"], "Ana");
    assert!(show(&world, &path).await.text.contains("Voltar à loja"));
    assert_eq!(submit(&world, &path, "act=pay").await.status, 409);
}

#[tokio::test]
async fn a_payer_authenticates() {
    let world = World::start().await;
    let session = world.session("ch_1").await;
    let path = format!("/pay/{}", session["id"].as_str().unwrap());
    assert_eq!(submit(&world, &path, "act=challenge").await.header("location"), path);
    assert!(show(&world, &path).await.text.contains("Confirmar o pagamento"));
    assert_eq!(submit(&world, &path, "act=fail").await.header("location"), path);
    assert!(show(&world, &path).await.text.contains("O cartão foi recusado"));
    submit(&world, &path, "act=challenge").await;
    let done = submit(&world, &path, "act=succeed").await;
    assert!(done.header("location").starts_with("http://127.0.0.1:1/done"));
}

#[tokio::test]
async fn an_expired_or_unknown_session_shows_so() {
    let world = World::start().await;
    let session = world.session("ch_1").await;
    world.advance_s(86_400);
    let path = format!("/pay/{}", session["id"].as_str().unwrap());
    assert_eq!(show(&world, &path).await.status, 410);
    assert_eq!(submit(&world, &path, "act=pay").await.status, 409);
    assert_eq!(submit(&world, &path, "act=other").await.status, 400);
    assert_eq!(show(&world, "/pay/cs_live_other").await.status, 404);
}
