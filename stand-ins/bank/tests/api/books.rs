//! Books in a file, which survive a kill of the bank.

use std::path::PathBuf;

use bank::{Client, FaultKind};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use crate::support::{KEY, Receiver, World, eventually, txid};

/// A file of books, which is removed on drop.
struct BooksFile(PathBuf);

impl BooksFile {
    fn new(name: &str) -> Self {
        let file = std::env::temp_dir().join(format!("bank-{}-{name}.jsonl", std::process::id()));
        let _ = std::fs::remove_file(&file);
        Self(file)
    }

    fn lines(&self) -> Vec<String> {
        std::fs::read_to_string(&self.0).unwrap().lines().map(str::to_owned).collect()
    }

    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }
}

impl Drop for BooksFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

async fn start(file: &BooksFile) -> World {
    let mut world = World::start_with(|options| options.books = Some(file.0.clone())).await;
    world.api.authenticate().await;
    world
}

/// Kills the bank and starts it again.
async fn restart(world: &mut World) {
    world.restart_with(|_| {}).await.unwrap();
    world.api.authenticate().await;
}

#[tokio::test]
async fn a_killed_bank_loses_nothing_that_a_client_saw() {
    let file = BooksFile::new("survives");
    let mut world = start(&file).await;
    let receiver = Receiver::start().await;
    world.api.register_webhook(&receiver.url).await;
    world.api.create_cob(1).await;
    world.api.patch(&format!("/cob/{}", txid(1)), &json!({"valor": {"original": "12.00"}})).await.expect(200);
    let removed = json!({"status": "REMOVIDA_PELO_USUARIO_RECEBEDOR"});
    world.api.create_cob(2).await;
    world.api.patch(&format!("/cob/{}", txid(2)), &removed).await.expect(200);
    let paid = world.pay(1).end_to_end_id;
    let devolucao = format!("/pix/{paid}/devolucao/return1");
    let pending = world.api.put(&devolucao, &json!({"valor": "2.00"})).await.expect(201);
    let pix_out = json!({"valor": "3.00", "chave": "maria@example.com"});
    world.api.put("/pix-out/out1", &pix_out).await.expect(201);
    let token = world.api.token.clone();
    let before = world.bank.snapshot();
    world.fault(FaultKind::Http500);

    world.restart_with(|_| {}).await.unwrap();
    assert_eq!(world.bank.snapshot(), before);
    assert_eq!(world.bank.pending_faults(FaultKind::Http500), 0, "faults end with the process");
    world.api.token = token;
    world.api.get(&format!("/cob/{}", txid(1))).await.expect(401);
    world.api.authenticate().await;
    let first = world.api.get(&format!("/cob/{}?revisao=0", txid(1))).await.expect(200);
    assert_eq!((&first["valor"]["original"], &first["status"]), (&json!("10.00"), &json!("CONCLUIDA")));
    assert_eq!(world.api.get(&devolucao).await.expect(200), pending);
    assert_eq!(pending["status"], "EM_PROCESSAMENTO");
    assert_eq!(world.api.get(&format!("/webhook/{KEY}")).await.expect(200)["webhookUrl"], receiver.url);

    // What was to happen happens: the callback of the payment, both settlements, the callback of the
    // devolução.
    world.advance_ms(1_000);
    assert_eq!(receiver.callbacks(1).await[0]["devolucoes"][0]["status"], "EM_PROCESSAMENTO");
    world.advance_ms(1_000);
    let callbacks = receiver.callbacks(2).await;
    assert_eq!(callbacks[1], world.api.get(&format!("/pix/{paid}")).await.expect(200));
    assert_eq!(callbacks[1]["devolucoes"][0]["status"], "DEVOLVIDO");
    assert_eq!(world.api.get("/pix-out/out1").await.expect(200)["status"], "REALIZADO");

    // Ids are not used again.
    world.api.create_cob(3).await;
    assert_ne!(world.pay(3).end_to_end_id, paid);
    let before = world.bank.snapshot();
    restart(&mut world).await;
    assert_eq!(world.bank.snapshot(), before);
    assert_eq!(before["pix"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn the_next_attempt_of_a_failed_callback_survives_a_kill() {
    let file = BooksFile::new("retry");
    let mut world = start(&file).await;
    let receiver = Receiver::start().await;
    world.api.register_webhook(&receiver.url).await;
    receiver.answer(503);
    world.paid_cob(1).await;
    world.advance_ms(1_000);
    receiver.callbacks(1).await;
    // The attempt fails before or after the kill. Either way, another follows.
    receiver.answer(200);
    restart(&mut world).await;
    let attempts = eventually("another attempt arrives", async || {
        world.advance_ms(1_000);
        let attempts = receiver.received().len();
        (attempts > 1).then_some(attempts)
    })
    .await;
    assert_eq!(receiver.callbacks(attempts).await[1]["txid"], txid(1));
}

/// Accepts a connection of the bank and reads its callback, which is not answered.
async fn accept_callback(listener: &TcpListener, end_to_end_id: &str) -> TcpStream {
    let (stream, _) = listener.accept().await.unwrap();
    let mut text = String::new();
    while !(text.contains(end_to_end_id) && text.ends_with("]}")) {
        stream.readable().await.unwrap();
        let mut buffer = [0; 4096];
        match stream.try_read(&mut buffer) {
            Ok(0) => panic!("the callback ends early: {text}"),
            Ok(length) => text.push_str(std::str::from_utf8(&buffer[..length]).unwrap()),
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    stream
}

#[tokio::test]
async fn a_callback_that_was_being_sent_is_sent_again_after_a_kill() {
    let file = BooksFile::new("sending");
    let mut world = start(&file).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    world.api.register_webhook(&format!("http://{}/hooks", listener.local_addr().unwrap())).await;
    let paid = world.paid_cob(1).await;
    world.advance_ms(1_000);
    let _unanswered = accept_callback(&listener, &paid).await;
    restart(&mut world).await;
    accept_callback(&listener, &paid).await;
}

#[tokio::test]
async fn unreadable_books_and_those_of_other_clients_are_refused_with_the_reason() {
    let file = BooksFile::new("refused");
    let mut world = start(&file).await;
    world.paid_cob(1).await;
    let before = world.bank.snapshot();
    let lines = file.lines();
    for (text, reason) in [
        ("{\"format\":2,\"clients\":[]}\n".to_owned(), "another version"),
        (format!("{}\nnonsense\n{}\n", lines[0], lines[1]), "line 2: expected"),
        (format!("{}\n{{\"loans\":[]}}\n", lines[0]), "line 2: unknown field `loans`"),
    ] {
        file.write(&text);
        let error = world.restart_with(|_| {}).await.unwrap_err().to_string();
        assert!(error.contains(reason) && error.contains(file.0.to_str().unwrap()), "{error}");
        assert_eq!(std::fs::read_to_string(&file.0).unwrap(), text, "refused books stay as they are");
    }
    file.write(&(lines.join("\n") + "\n"));
    let error = world.restart_with(|options| options.clients.reverse()).await.unwrap_err().to_string();
    assert!(error.contains("client-1, client-2"), "{error}");

    // A client may be added at the end.
    let added = |options: &mut bank::Options| {
        options.clients.reverse();
        let third = Client { client_id: "client-3".to_owned(), ..options.clients[0].clone() };
        options.clients.push(third);
    };
    world.restart_with(added).await.unwrap();
    assert_eq!(world.bank.snapshot(), before);
}
