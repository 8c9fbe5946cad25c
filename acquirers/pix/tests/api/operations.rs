//! Every operation, at every kind of bank.

use std::sync::Arc;

use api_pix::{
    Client, ClockOffsets, CobStatus, DevolucaoStatus, Nature, NewPixOut, Payer, PixOutStatus, PixQuery,
    Webhook,
};
use bank::{PayRequest, Profile};
use domain::time::Timestamp;

use crate::support::{
    CPF, KEY, MAIL_KEY, OTHER_CPF, PHONE_KEY, START_MS, World, bank_client, day, id, key, new_cob, reais,
    settings, tax_id, txid,
};

async fn each_profile(test: impl AsyncFn(World)) {
    for profile in Profile::ALL {
        test(World::start_as(*profile).await).await;
    }
}

#[tokio::test]
async fn a_cob_is_created_read_and_paid() {
    each_profile(async |world| {
        let behaviour = world.bank.behaviour();
        let created = world.client.put_cob(&txid(1), &new_cob()).await.unwrap();
        assert_eq!((created.txid.as_str(), &created.status), (txid(1).as_str(), &CobStatus::Active));
        assert_eq!((created.amount, created.key.as_deref()), (reais(10), Some(KEY)));
        assert_eq!(created.created_at.millis(), START_MS + 1_000 * behaviour.times_ahead_s);
        assert_eq!(created.expires_in_seconds, 3_600);
        assert_eq!(created.copia_e_cola.is_some(), behaviour.shows_copia_e_cola);
        assert!(created.location.as_deref().is_some_and(|location| !location.contains("://")));
        assert_eq!(created.raw.as_map()["devedor"]["cpf"], CPF);
        assert_eq!(created.raw.as_map()["solicitacaoPagador"], "Pedido 1");
        assert_eq!(world.client.get_cob(&txid(1)).await.unwrap(), Some(created));

        let paid = world.pay(1);
        let completed = world.client.get_cob(&txid(1)).await.unwrap().unwrap();
        assert_eq!(completed.status, CobStatus::Completed);
        assert_eq!(completed.pix.len(), 1);
        assert_eq!(completed.pix[0].end_to_end_id.as_str(), paid.end_to_end_id);
    })
    .await;
}

#[tokio::test]
async fn the_banks_clock_is_measured_by_the_date_header_and_by_a_new_cob() {
    for (profile, skew_s, date, created) in [
        (Profile::Complete, 0, 0, 0),
        (Profile::Complete, 90, 90, 90),
        (Profile::Complete, -10_800, -10_800, -10_800),
        (Profile::LocalTime, 0, 0, -10_800),
    ] {
        let mut options = bank::Options::new(Arc::new(|| START_MS));
        (options.profile, options.skew_s, options.clients) = (profile, skew_s, vec![bank_client()]);
        let bank = bank::Bank::start(options).await.unwrap();
        let settings = settings(bank.behaviour(), bank.url(), bank.token_url());
        let client = Client::new(&settings, Arc::new(|| Timestamp::from_millis(START_MS).unwrap())).unwrap();
        assert_eq!(client.clock_offsets(), ClockOffsets::default());
        client.get_cob(&txid(1)).await.unwrap();
        assert_eq!(client.clock_offsets(), ClockOffsets { date: Some(date), created: None });
        client.put_cob(&txid(1), &new_cob()).await.unwrap();
        let expected = ClockOffsets { date: Some(date), created: Some(created) };
        assert_eq!(client.clock_offsets(), expected);
        assert_eq!(client.wrong_clock_to_report(), (created != 0).then_some(expected));
        assert_eq!(client.wrong_clock_to_report(), None, "it is reported once an hour");
    }
}

#[tokio::test]
async fn a_cob_is_removed_once() {
    each_profile(async |world| {
        world.cob(1).await;
        let removed = world.client.remove_cob(&txid(1)).await.unwrap();
        assert_eq!(removed.status, CobStatus::RemovedByReceiver);
        let again = world.client.remove_cob(&txid(1)).await.unwrap_err();
        assert!(matches!(again, api_pix::ApiError::Refused { status: 400, .. }), "{again}");
    })
    .await;
}

#[tokio::test]
async fn a_pix_is_read_with_what_the_bank_reports_of_its_payer() {
    each_profile(async |world| {
        let behaviour = world.bank.behaviour();
        let end_to_end_id = world.paid_cob(1).await;
        let pix = world.client.get_pix(&end_to_end_id).await.unwrap().unwrap();
        assert_eq!(pix.end_to_end_id, end_to_end_id);
        assert_eq!((pix.txid.as_deref(), pix.amount), (Some(txid(1).as_str()), reais(10)));
        assert_eq!(pix.at.millis(), START_MS + 1_000 * behaviour.times_ahead_s);
        assert_eq!(pix.key.as_deref(), behaviour.shows_key.then_some(KEY));
        let expected = if behaviour.shows_payer { Payer::Document(tax_id(CPF)) } else { Payer::NotReported };
        assert_eq!(pix.payer, expected);
        assert_eq!(pix.returns, []);
    })
    .await;
}

#[tokio::test]
async fn unknown_ids_are_none() {
    each_profile(async |world| {
        let unknown = id("E9999900420261122120000000000099");
        assert_eq!(world.client.get_cob(&txid(9)).await, Ok(None));
        assert_eq!(world.client.get_pix(&unknown).await, Ok(None));
        assert_eq!(world.client.get_devolucao(&unknown, "r1").await, Ok(None));
        assert_eq!(world.client.get_webhook(&key(KEY)).await, Ok(None));
        assert_eq!(world.client.get_pix_out("out1").await, Ok(None));
        let removal = world.client.remove_cob(&txid(9)).await;
        assert!(matches!(removal, Err(api_pix::ApiError::NotFound(_))), "{removal:?}");
    })
    .await;
}

#[tokio::test]
async fn pix_are_listed_by_period_txid_payer_and_return_in_pages() {
    each_profile(async |world| {
        for number in 1..=5 {
            world.paid_cob(number).await;
        }
        let payer = bank::Payer::Person { tax_id: OTHER_CPF.to_owned(), name: "José".to_owned() };
        world.cob(6).await;
        world.bank.pay(&PayRequest { txid: txid(6), payer, ..PayRequest::default() }).unwrap();
        let returned = id(world.bank.snapshot()["pix"][0]["endToEndId"].as_str().unwrap());
        world.client.put_devolucao(&returned, "r1", reais(1), None).await.unwrap();

        let count = async |query: PixQuery| {
            let page = world.client.list_pix(&query).await.unwrap();
            assert_eq!((page.malformed.len(), page.page, page.pages), (0, 0, 1));
            assert_eq!(page.total, Some(page.pix.len().try_into().unwrap()));
            page.pix.len()
        };
        assert_eq!(count(day()).await, 6);
        assert_eq!(count(PixQuery { txid: Some(txid(2)), ..day() }).await, 1);
        assert_eq!(count(PixQuery { payer: Some(tax_id(OTHER_CPF)), ..day() }).await, 1);
        assert_eq!(count(PixQuery { payer: Some(tax_id("12ABC34501DE35")), ..day() }).await, 0);
        assert_eq!(count(PixQuery { with_return: Some(true), ..day() }).await, 1);
        assert_eq!(count(PixQuery { with_return: Some(false), ..day() }).await, 5);
        assert_eq!(count(PixQuery { to: day().from.plus_seconds(1).unwrap(), ..day() }).await, 0);

        let mut seen = Vec::new();
        for number in 0..2 {
            let query = PixQuery { page: number, page_size: 4, ..day() };
            let page = world.client.list_pix(&query).await.unwrap();
            assert_eq!((page.page, page.pages, page.total), (number, 2, Some(6)));
            seen.extend(page.pix.into_iter().map(|pix| pix.end_to_end_id));
        }
        seen.dedup();
        assert_eq!(seen.len(), 6);
    })
    .await;
}

#[tokio::test]
async fn a_pix_is_returned_in_parts() {
    each_profile(async |world| {
        let end_to_end_id = world.paid_cob(1).await;
        let requested =
            world.client.put_devolucao(&end_to_end_id, "r1", reais(4), Some("Troca")).await.unwrap();
        assert_eq!((requested.id.as_str(), requested.amount), ("r1", reais(4)));
        assert_eq!(requested.status, DevolucaoStatus::InProgress);
        assert_eq!(
            (requested.nature, requested.settled_at, requested.reason),
            (Nature::Original, None, None)
        );
        assert!(requested.rtr_id.is_some() && requested.requested_at.is_some());

        world.advance_s(2);
        let settled = world.client.get_devolucao(&end_to_end_id, "r1").await.unwrap().unwrap();
        assert_eq!(settled.status, DevolucaoStatus::Returned);
        assert!(settled.settled_at.is_some());
        world.client.put_devolucao(&end_to_end_id, "r2", reais(6), None).await.unwrap();
        let pix = world.pix(&end_to_end_id).await;
        assert_eq!(pix.returns.iter().map(|item| item.amount).collect::<Vec<_>>(), [reais(4), reais(6)]);
    })
    .await;
}

#[tokio::test]
async fn a_callback_url_is_registered_for_keys_of_all_forms() {
    each_profile(async |world| {
        let url = format!("{}/hooks/abc", world.proxy.origin);
        for text in [KEY, PHONE_KEY, MAIL_KEY] {
            world.client.put_webhook(&key(text), &url).await.unwrap();
            assert_eq!(
                world.client.get_webhook(&key(text)).await.unwrap(),
                Some(Webhook { url: url.clone() })
            );
        }
        let foreign = world.client.put_webhook(&key("outra@example.com"), &url).await.unwrap_err();
        assert!(matches!(foreign, api_pix::ApiError::Refused { status: 400, .. }), "{foreign}");
        for text in [KEY, PHONE_KEY, KEY] {
            world.client.delete_webhook(&key(text)).await.unwrap();
            assert_eq!(world.client.get_webhook(&key(text)).await, Ok(None));
        }
        assert!(world.client.get_webhook(&key(MAIL_KEY)).await.unwrap().is_some());
        // Only the registration has the additional headers.
        for request in world.proxy.api_requests() {
            if let Some((name, value)) = world.bank.behaviour().webhook_header {
                assert_eq!(request.header(name), (request.method == "PUT").then_some(value));
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_pix_is_sent_once() {
    each_profile(async |world| {
        let pix_out = NewPixOut {
            amount: reais(3),
            key: key("maria@example.com"),
            description: Some("Reembolso".to_owned()),
        };
        let sent = world.client.put_pix_out("out1", &pix_out).await.unwrap();
        assert_eq!(
            (sent.id.as_str(), sent.amount, &sent.status),
            ("out1", reais(3), &PixOutStatus::InProgress)
        );
        assert_eq!(sent.key.as_deref(), Some("maria@example.com"));
        assert_eq!(world.client.put_pix_out("out1", &pix_out).await.unwrap(), sent);
        let other = NewPixOut { amount: reais(4), ..pix_out };
        let conflict = world.client.put_pix_out("out1", &other).await;
        assert!(matches!(conflict, Err(api_pix::ApiError::Refused { status: 400, .. })), "{conflict:?}");

        world.advance_s(2);
        let completed = world.client.get_pix_out("out1").await.unwrap().unwrap();
        assert_eq!(completed.status, PixOutStatus::Completed);
        assert!(completed.settled_at.is_some() && completed.end_to_end_id.is_some());
    })
    .await;
}

#[tokio::test]
async fn long_texts_are_cut_to_the_documents_limits() {
    let world = World::start().await;
    let mut cob = new_cob();
    cob.debtor.as_mut().unwrap().name = "ã".repeat(201);
    cob.payer_request = Some("é".repeat(141));
    cob.amount = domain::money::Amount::MAX;
    world.client.put_cob(&txid(1), &cob).await.unwrap();
    let end_to_end_id = id(&world.pay(1).end_to_end_id);
    let long = "í".repeat(141);
    world.client.put_devolucao(&end_to_end_id, "r1", reais(1), Some(&long)).await.unwrap();
    let pix_out = NewPixOut { amount: reais(1), key: key(MAIL_KEY), description: Some(long) };
    world.client.put_pix_out("out1", &pix_out).await.unwrap();

    let bodies: Vec<_> = world.proxy.api_requests().into_iter().map(|request| request.body).collect();
    assert_eq!(bodies[0]["devedor"]["nome"], "ã".repeat(200));
    assert_eq!(bodies[0]["solicitacaoPagador"], "é".repeat(140));
    assert_eq!(bodies[0]["valor"]["original"], "9999999999.99");
    assert_eq!(bodies[1]["descricao"], "í".repeat(140));
    assert_eq!(bodies[2]["descricao"], "í".repeat(140));
}

#[tokio::test]
async fn a_company_is_a_debtor_by_its_cnpj() {
    let world = World::start().await;
    let mut cob = new_cob();
    cob.debtor.as_mut().unwrap().tax_id = tax_id("12ABC34501DE35");
    world.client.put_cob(&txid(1), &cob).await.unwrap();
    let end_to_end_id = id(&world.pay(1).end_to_end_id);
    assert_eq!(world.pix(&end_to_end_id).await.payer, Payer::Document(tax_id("12ABC34501DE35")));
}

#[tokio::test]
async fn ids_that_no_bank_accepts_are_not_sent() {
    let world = World::start().await;
    let pix = id("E9999900420261122120000000000099");
    for text in ["", "a-b", "a/b", "ã", &"a".repeat(36)] {
        let outcomes = [
            world.client.get_cob(text).await.err(),
            world.client.put_cob(text, &new_cob()).await.err(),
            world.client.remove_cob(text).await.err(),
            world.client.get_devolucao(&pix, text).await.err(),
            world.client.put_devolucao(&pix, text, reais(1), None).await.err(),
            world.client.get_pix_out(text).await.err(),
            world.client.list_pix(&PixQuery { txid: Some(text.to_owned()), ..day() }).await.err(),
        ];
        for error in outcomes {
            assert!(matches!(error, Some(api_pix::ApiError::InvalidRequest(_))), "{text}: {error:?}");
        }
    }
    assert_eq!((world.sent(), world.tokens()), (0, 0));
}
