//! Logs, `Debug` and errors contain no secret and no document.

use api_pix::{NewPixOut, PixQuery};
use bank::{FaultKind, Profile};

use crate::logs::{assert_private, record, recorded};
use crate::support::{CPF, KEY, SECRET, World, day, key, new_cob, reais, tax_id, txid};

#[tokio::test]
async fn logs_of_all_levels_contain_no_secret_and_no_document() {
    record();

    let world = World::start_as(Profile::AppKey).await;
    let end_to_end_id = world.paid_cob(1).await;
    world.client.list_pix(&PixQuery { payer: Some(tax_id(CPF)), ..day() }).await.unwrap();
    world.client.put_devolucao(&end_to_end_id, "r1", reais(1), Some("Troca")).await.unwrap();
    world.fault(FaultKind::Http500, 1);
    world.client.get_pix(&end_to_end_id).await.unwrap_err();
    let token = world.proxy.api_requests()[0].header("authorization").unwrap().to_owned();
    let token = token.strip_prefix("Bearer ").unwrap();
    let (_, app_key) = world.bank.behaviour().required_parameter.unwrap();

    let logs = recorded();
    // The logs of the client are there.
    assert!(logs.contains("operation=\"list_pix\"") && logs.contains("the bank answered 500"), "{logs}");
    assert_private(&logs, &[CPF, SECRET, token, app_key, "Maria", "Pedido 1", "Troca"]);
}

#[tokio::test]
async fn debug_shows_no_secret_no_name_and_no_document() {
    let world = World::start_with(Profile::AppKey, |settings| {
        settings.headers = vec![("x-account".to_owned(), "header-secret".to_owned().into())];
        let (_, _, [identity, _]) = crate::tls::identities();
        settings.identity = Some(identity.identity());
    })
    .await;
    let (_, app_key) = world.bank.behaviour().required_parameter.unwrap();
    let settings = format!("{:?} {:?}", world.settings, world.client);
    assert!(settings.contains("client-1"));
    assert_private(&settings, &[SECRET, app_key, "header-secret", "BEGIN"]);

    let new_cob = new_cob();
    let cob = world.client.put_cob(&txid(1), &new_cob).await.unwrap();
    world.pay(1);
    let cob_with_pix = world.client.get_cob(&txid(1)).await.unwrap().unwrap();
    let pix_out = NewPixOut { amount: reais(1), key: key("maria@example.com"), description: None };
    let sent = world.client.put_pix_out("out1", &pix_out).await.unwrap();
    let url = format!("{}/hooks/callback-token", world.proxy.origin);
    world.client.put_webhook(&key(KEY), &url).await.unwrap();
    let webhook = world.client.get_webhook(&key(KEY)).await.unwrap().unwrap();
    let page = world.client.list_pix(&day()).await.unwrap();
    let query = PixQuery { payer: Some(tax_id(CPF)), ..day() };
    let objects =
        format!("{new_cob:?} {cob:?} {cob_with_pix:?} {pix_out:?} {sent:?} {page:?} {query:?} {webhook:?}");
    assert!(objects.contains(&txid(1)));
    assert_private(&objects, &[CPF, "Maria", "maria@", "Pedido", "callback-token"]);
}
