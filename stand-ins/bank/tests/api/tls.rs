//! mTLS.

use crate::support::{World, identities, tls, txid};

#[tokio::test]
async fn a_token_works_only_with_the_certificate_that_requested_it() {
    let (authority, server, [first, second]) = identities();
    let server_tls = tls(&authority, &server);
    let mut world =
        World::start_tls(|options| options.tls = Some(server_tls), Some(&authority), Some(&first)).await;
    assert!(world.bank.url().starts_with("https://"));
    world.api.authenticate().await;
    world.api.create_cob(1).await;

    let path = format!("/cob/{}", txid(1));
    let mut other = world.api_with(&authority, Some(&second));
    other.token = world.api.token.clone();
    other.get(&path).await.expect(401);
    other.authenticate().await;
    other.get(&path).await.expect(200);

    let without_certificate = world.api_with(&authority, None);
    assert!(without_certificate.try_call("GET", &path, None).await.is_none());
    let (_, _, [foreign, _]) = identities();
    let with_foreign = world.api_with(&authority, Some(&foreign));
    assert!(with_foreign.try_call("GET", &path, None).await.is_none());
}
