//! Words for texts of closed lists that rows have in English: reasons of failures, steps of the timeline, actions and
//! details of audit rows, and the names of fields in refusals. An unknown text is shown as it is.

use domain::charge::{TransactionStatus, UnappliedReason};
use domain::med::{CaseStatus, MoneyOutcome};
use domain::money::Currency;
use domain::refund::RefundStatus;
use domain::vocabulary::Vocabulary;
use domain::wallet::{PostingKind, RefundStrategy, ReturnStatus};
use effects::webhook::delivery::DeliveryStatus;
use effects::webhook::endpoint::EndpointStatus;
use pages::{Language, Tone, Word, money, term, without_documents};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use services::{TimelineEntry, TimelineKind};
use shared::account::Role;

use crate::disputes::outcome_name;
use crate::money::movement_name;
use crate::states::State;
use crate::webhooks::failure;
use crate::words as w;

pages::words! { ,
    ACCEPTED = "Aceito", "Accepted", "Aceptado";
    OPENED = "Aberta", "Opened", "Abierta";
    UNCONFIRMED = "Aberta, a confirmar", "Opened, not confirmed yet", "Abierta, por confirmar";
    EVIDENCE_REQUESTED = "Provas pedidas", "Evidence requested", "Pruebas solicitadas";
    BY_RETURN = "Por devolução do Pix recebido", "By a return of the Pix", "Por devolución del Pix recibido";
    BY_PIX = "Por um novo Pix", "By a new Pix", "Por un nuevo Pix";
    WRONG_AMOUNT = "O valor pago difere do valor da cobrança.", "The paid amount differs from the charge's.", "El importe pagado difiere del importe del cobro.";
    LATE = "Pago depois do fim da cobrança.", "Paid after the charge had ended.", "Pagado después del fin del cobro.";
    SECOND_PAYMENT = "A cobrança já estava paga.", "The charge was paid already.", "El cobro ya estaba pagado.";
    PAYER_MISMATCH = "Outro CPF ou CNPJ pagou.", "Another CPF or CNPJ paid.", "Pagó otro CPF o CNPJ.";
    REVIEW_RETURNED = "A análise decidiu devolver.", "The review decided to return it.", "La revisión decidió devolverlo.";
    CANCELLED_IN_REVIEW = "A cobrança foi cancelada durante a análise.", "The charge was cancelled during the review.", "El cobro fue cancelado durante la revisión.";
    UNMATCHED = "O pagamento não pertence a uma cobrança.", "The payment belongs to no charge.", "El pago no pertenece a un cobro.";
    DATE_RULE = "Use uma data, como 2026-11-26.", "Use a date, such as 2026-11-26.", "Use una fecha, como 2026-11-26.";
    DOCUMENT_RULE = "Use o CPF ou o CNPJ, com ou sem pontos, de até 32 caracteres.", "Use the CPF or CNPJ, with or without points, of at most 32 characters.", "Use el CPF o el CNPJ, con o sin puntos, de hasta 32 caracteres.";
    END_TO_END_RULE = "Use os 32 caracteres do comprovante do Pix, que começam com E.", "Use the 32 characters of the Pix receipt, which begin with E.", "Use los 32 caracteres del comprobante del Pix, que empiezan con E.";
    TXID_RULE = "Use as 26 letras e números do txid da cobrança.", "Use the 26 letters and digits of the charge's txid.", "Use las 26 letras y números del txid del cobro.";
    FIELD_CODE = "Código", "Code", "Código";
    FIELD_COLOR = "Cor", "Colour", "Color";
    FIELD_NAME = "Nome", "Name", "Nombre";
    ACCOUNT_CHANGED = "Configuração da conta alterada pela operadora", "Setting of the account changed by the operator", "Configuración de la cuenta cambiada por el operador";
}

pages::terms! {
    REASONS: {
        "The merchant cancelled the charge." = "A loja cancelou a cobrança.", "The shop cancelled the charge.", "La tienda canceló el cobro.";
        "The charge was not paid before it expired." = "A cobrança não foi paga antes de vencer.", "The charge was not paid before it expired.", "El cobro no se pagó antes de vencer.";
        "The acquirer did not answer in time." = "O banco não respondeu a tempo.", "The bank did not answer in time.", "El banco no respondió a tiempo.";
        "The bank refused the charge." = "O banco recusou a cobrança.", "The bank refused the charge.", "El banco rechazó el cobro.";
        "The bank removed the charge." = "O banco retirou a cobrança.", "The bank removed the charge.", "El banco retiró el cobro.";
        "The bank refused the request without a reason." = "O banco recusou sem dizer o motivo.", "The bank refused the request without a reason.", "El banco rechazó sin decir el motivo.";
        "The sandbox refused the payment." = "Recusado no ambiente de testes.", "Declined in the sandbox.", "Rechazado en el entorno de pruebas.";
        "The sandbox declined the charge." = "Recusado no ambiente de testes.", "Declined in the sandbox.", "Rechazado en el entorno de pruebas.";
        "The payment was declined in a simulation." = "Recusado em uma simulação.", "Declined in a simulation.", "Rechazado en una simulación.";
        "The holder did not authenticate the payment." = "O titular não autenticou o pagamento.", "The holder did not authenticate the payment.", "El titular no autenticó el pago.";
    }
    ACTIONS: {
        "account.open" = "Conta aberta", "Account opened", "Cuenta abierta";
        "account.suspend" = "Conta suspensa", "Account suspended", "Cuenta suspendida";
        "account.resume" = "Conta reativada", "Account resumed", "Cuenta reactivada";
        "account.set-brand" = "Marca alterada", "Brand changed", "Marca cambiada";
        "account.require-second-factor" = "Exigência da verificação em duas etapas", "Demand of the second factor", "Exigencia de la verificación en dos pasos";
        "api-key.issue" = "Chave emitida", "Key issued", "Clave emitida";
        "api-key.rotate" = "Chave trocada", "Key rotated", "Clave rotada";
        "api-key.revoke" = "Chave revogada", "Key revoked", "Clave revocada";
        "charge.cancel" = "Cobrança cancelada", "Charge cancelled", "Cobro cancelado";
        "charge.expire" = "Cobrança encerrada pela operadora", "Charge ended by the operator", "Cobro cerrado por el operador";
        "charge.reveal-document" = "Documento do pagador mostrado", "Payer's document shown", "Documento del pagador mostrado";
        "customer.erase" = "Dados do cliente apagados", "Customer's data erased", "Datos del cliente borrados";
        "deliveries.redrive" = "Entregas recuperadas", "Deliveries recovered", "Entregas recuperadas";
        "events.replay" = "Eventos reprocessados", "Events replayed", "Eventos reprocesados";
        "ledger.adjust" = "Ajuste do saldo", "Adjustment of the balance", "Ajuste del saldo";
        "live-charges.resume" = "Cobranças em produção retomadas", "Live charges resumed", "Cobros en producción reanudados";
        "live-charges.stop" = "Cobranças em produção paradas", "Live charges stopped", "Cobros en producción detenidos";
        "med.accept" = "Perda da disputa aceita", "Loss of the dispute accepted", "Pérdida de la disputa aceptada";
        "med.add-evidence" = "Prova anexada", "Evidence attached", "Prueba adjuntada";
        "med.appeal" = "Disputa contestada", "Dispute appealed", "Disputa apelada";
        "med.confirm" = "Disputa confirmada", "Dispute confirmed", "Disputa confirmada";
        "med.decide" = "Disputa decidida", "Dispute decided", "Disputa decidida";
        "med.dismiss-notice" = "Aviso de disputa descartado", "Notice of a dispute dismissed", "Aviso de disputa descartado";
        "med.forward" = "Provas enviadas ao banco", "Evidence sent to the bank", "Pruebas enviadas al banco";
        "med.request-evidence" = "Provas pedidas", "Evidence requested", "Pruebas solicitadas";
        "med.retry-notice" = "Aviso de disputa reprocessado", "Notice of a dispute processed again", "Aviso de disputa reprocesado";
        "notification.resolve" = "Notificação do banco resolvida", "Notification of the bank resolved", "Notificación del banco resuelta";
        "override-secret.rotate" = "Segredo de webhookUrl trocado", "Secret for webhookUrl rotated", "Secreto de webhookUrl rotado";
        "payout.create" = "Repasse criado", "Payout created", "Retiro creado";
        "payout.fail" = "Repasse que falhou", "Payout failed", "Retiro fallido";
        "payout.settle" = "Repasse transferido", "Payout transferred", "Retiro transferido";
        "receipt.apply" = "Pagamento atribuído a uma cobrança", "Payment applied to a charge", "Pago aplicado a un cobro";
        "receipt.credit" = "Reembolso que voltou, creditado", "Returned refund credited", "Reembolso devuelto, acreditado";
        "receipt.record" = "Pagamento registrado", "Payment recorded", "Pago registrado";
        "receipt.return" = "Pagamento devolvido ao pagador", "Payment returned to the payer", "Pago devuelto al pagador";
        "refund.at-bank" = "Devolução encontrada no banco", "Refund found at the bank", "Devolución encontrada en el banco";
        "refund.create" = "Devolução criada", "Refund created", "Devolución creada";
        "refund.fail" = "Devolução encerrada pela operadora", "Refund ended by the operator", "Devolución cerrada por el operador";
        "review.approve" = "Pagamento em análise aprovado", "Payment in review approved", "Pago en revisión aprobado";
        "review.return" = "Pagamento em análise devolvido", "Payment in review returned", "Pago en revisión devuelto";
        "user.add" = "Membro adicionado", "Member added", "Miembro agregado";
        "user.confirm" = "Sessão confirmada", "Session confirmed", "Sesión confirmada";
        "user.end-sessions" = "Sessões encerradas", "Sessions ended", "Sesiones cerradas";
        "user.invite" = "Membro convidado", "Member invited", "Miembro invitado";
        "user.lock-out" = "Login bloqueado", "Log-in blocked", "Inicio de sesión bloqueado";
        "user.log-in" = "Login", "Log-in", "Inicio de sesión";
        "user.log-out" = "Logout", "Log-out", "Cierre de sesión";
        "user.remove" = "Membro removido", "Member removed", "Miembro quitado";
        "user.reset-password" = "Senha trocada", "Password changed", "Contraseña cambiada";
        "user.second-factor-off" = "Verificação em duas etapas desativada", "Second factor turned off", "Verificación en dos pasos desactivada";
        "user.second-factor-on" = "Verificação em duas etapas ativada", "Second factor turned on", "Verificación en dos pasos activada";
        "user.set-role" = "Papel alterado", "Role changed", "Rol cambiado";
        "user.withdraw-invite" = "Convite retirado", "Invite withdrawn", "Invitación retirada";
        "webhook-endpoint.change" = "Endpoint alterado", "Endpoint changed", "Endpoint cambiado";
        "webhook-endpoint.delete" = "Endpoint excluído", "Endpoint deleted", "Endpoint eliminado";
        "webhook-endpoint.disable" = "Endpoint desligado pelo serviço", "Endpoint switched off by the service", "Endpoint desactivado por el servicio";
        "webhook-endpoint.register" = "Endpoint registrado", "Endpoint registered", "Endpoint registrado";
        "webhook-endpoint.rotate-secret" = "Segredo do endpoint trocado", "Secret of the endpoint rotated", "Secreto del endpoint rotado";
    }
    // Parts of the details of audit rows: those of several words are replaced first.
    DETAILS: {
        "another path or query at" = "outro caminho ou consulta em", "another path or query at", "otra ruta o consulta en";
        "nothing different" = "nada mudou", "nothing different", "nada cambió";
        "the payer's document" = "o documento do pagador", "the payer's document", "el documento del pagador";
        "secret for webhookUrl" = "segredo de webhookUrl", "secret for webhookUrl", "secreto de webhookUrl";
        "replaced by" = "trocada por", "replaced by", "reemplazada por";
        "events added" = "eventos acrescentados", "events added", "eventos agregados";
        "events removed" = "eventos retirados", "events removed", "eventos quitados";
        "test" = "teste", "test", "prueba";
        "live" = "produção", "live", "producción";
        "before" = "antes", "before", "antes";
        "lost" = "perdido", "lost", "perdido";
        "files" = "arquivos", "files", "archivos";
        "events" = "eventos", "events", "eventos";
        "status" = "situação", "state", "estado";
        "prefix" = "prefixo", "prefix", "prefijo";
        "deliveries" = "entregas", "deliveries", "entregas";
        "since" = "desde", "since", "desde";
        "was" = "era", "was", "era";
        "as" = "como", "as", "como";
        "of" = "de", "of", "de";
        "became" = "→", "→", "→";
        "to" = "→", "→", "→";
        "true" = "sim", "yes", "sí";
        "false" = "não", "no", "no";
        "merchant" = "a favor da loja", "for the shop", "a favor de la tienda";
        "payer" = "a favor do pagador", "for the payer", "a favor del pagador";
        "withdrawn" = "retirada pelo pagador", "withdrawn by the payer", "retirada por el pagador";
        "closed_without_refund" = "encerrada sem devolução à loja", "closed without the money for the shop", "cerrada sin devolución a la tienda";
    }
    // What the failure of an attempt begins with. The first that fits counts.
    pub(crate) FAILURES: {
        "address unreachable" | "connection failed" = "O servidor não foi alcançado.", "The server was not reached.", "No se alcanzó el servidor.";
        "the URL " | "address " = "A URL ou o endereço do servidor não é permitido.", "The URL or the server's address is not permitted.", "La URL o la dirección del servidor no está permitida.";
        "connection closed" = "O servidor fechou a conexão antes de responder.", "The server closed the connection before it answered.", "El servidor cerró la conexión antes de responder.";
        "answer" = "A resposta do servidor não é HTTP/1.1 válido.", "The server's answer is not valid HTTP/1.1.", "La respuesta del servidor no es HTTP/1.1 válido.";
        "the endpoint was deleted" = "O endpoint foi excluído.", "The endpoint was deleted.", "El endpoint fue eliminado.";
        "the endpoint was set to INACTIVE" = "O endpoint foi pausado.", "The endpoint was paused.", "El endpoint fue pausado.";
        "timeout" | "connection timed out" = "O servidor não respondeu a tempo. Responda 2xx antes de processar o evento.", "The server did not answer in time. Answer 2xx before you process the event.", "El servidor no respondió a tiempo. Responda 2xx antes de procesar el evento.";
        "connection refused" = "A conexão foi recusada: nada escuta nesse endereço.", "The connection was refused: nothing listens at that address.", "La conexión fue rechazada: nada escucha en esa dirección.";
        "DNS name not found" = "O nome do servidor não existe no DNS.", "The server's name does not exist in the DNS.", "El nombre del servidor no existe en el DNS.";
        "TLS" = "O certificado TLS do servidor não é válido.", "The server's TLS certificate is not valid.", "El certificado TLS del servidor no es válido.";
    }
}

/// The variant with this name. For enums whose names only `serde` knows.
fn named<T: DeserializeOwned>(text: &str) -> Option<T> {
    serde_json::from_value(text.into()).ok()
}

pub(crate) fn field(name: &str) -> Option<Word> {
    Some(match name {
        "amount" => w::AMOUNT,
        "code" => FIELD_CODE,
        "color" => FIELD_COLOR,
        "created_after" => w::FROM,
        "created_before" => w::TO,
        "customer" | "customer.name" => w::CUSTOMER,
        "customer.document" | "customer_id" => w::DOCUMENT,
        "customer.email" | "customer_email" | "email" => w::EMAIL,
        "day" => w::DAY,
        "description" => w::DESCRIPTION,
        "end_to_end_id" => w::END_TO_END_ID,
        "events" => w::EVENTS,
        "label" => w::LABEL,
        "logo" => w::LOGO,
        "metadata.order_id" | "order_id" => w::ORDER,
        "name" => FIELD_NAME,
        "object" => w::OBJECT,
        "phone" => w::PHONE,
        "reason" => w::REASON,
        "role" => w::ROLE,
        "txid" => w::TXID,
        "type" => w::KIND,
        "url" => w::URL,
        _ => return None,
    })
}

/// What the value of a filter must be.
pub(crate) fn rule(field: &str) -> Word {
    match field {
        "created_after" | "created_before" => DATE_RULE,
        "amount" => w::of_code("invalid_amount"),
        "customer_id" => DOCUMENT_RULE,
        "customer_email" => w::of_code("invalid_email"),
        "end_to_end_id" => END_TO_END_RULE,
        "txid" => TXID_RULE,
        _ => w::CODE_INVALID,
    }
}

/// Why a charge or refund failed: a text of the service, else one of the bank.
pub(crate) fn reason(language: Language, text: &str) -> String {
    term(REASONS, text).map_or_else(|| without_documents(text), |word| language.say(word).to_owned())
}

fn unapplied(reason: UnappliedReason) -> Word {
    match reason {
        UnappliedReason::WrongAmount => WRONG_AMOUNT,
        UnappliedReason::Late => LATE,
        UnappliedReason::SecondPayment => SECOND_PAYMENT,
        UnappliedReason::PayerMismatch => PAYER_MISMATCH,
        UnappliedReason::ReviewReturned => REVIEW_RETURNED,
        UnappliedReason::Cancelled => CANCELLED_IN_REVIEW,
        UnappliedReason::Unmatched | UnappliedReason::RefundFailed => UNMATCHED,
    }
}

fn strategy(strategy: RefundStrategy) -> Word {
    match strategy {
        RefundStrategy::Devolution => BY_RETURN,
        RefundStrategy::Cashout => BY_PIX,
    }
}

fn step_of_case(state: &str) -> Option<(Tone, Word)> {
    match state {
        "open" => Some((Tone::Warn, OPENED)),
        "open, unconfirmed" => Some((Tone::Warn, UNCONFIRMED)),
        "evidence requested" => Some((Tone::Warn, EVIDENCE_REQUESTED)),
        state => CaseStatus::named(state).map(State::shown),
    }
}

/// What an entry is about, and its state if it has words: an event has only its type.
pub(crate) fn words_of(entry: &TimelineEntry) -> (Word, Option<(Tone, Word)>) {
    let state = entry.state.as_str();
    match entry.what {
        TimelineKind::Status => (w::CHARGE, TransactionStatus::named(state).map(State::shown)),
        TimelineKind::Payment => {
            let returned = state.strip_prefix("return ").and_then(named::<ReturnStatus>);
            (w::KIND_PAYMENT, Some(returned.map_or((Tone::Good, ACCEPTED), State::shown)))
        }
        TimelineKind::Refund => (w::KIND_REFUND, RefundStatus::named(state).map(State::shown)),
        TimelineKind::Case => (w::KIND_CASE, step_of_case(state)),
        TimelineKind::Posting => {
            let movement = named::<PostingKind>(state);
            (w::WALLET, movement.map(|kind| (Tone::Calm, movement_name(kind))))
        }
        TimelineKind::Event => (w::KIND_EVENT, None),
        TimelineKind::Delivery => (w::KIND_DELIVERY, DeliveryStatus::named(state).map(State::shown)),
    }
}

/// What is known beside the state, in words. `None`: the state says it.
pub(crate) fn details_of(language: Language, entry: &TimelineEntry) -> Option<String> {
    let details = entry.details.as_deref()?;
    let say = |word: Word| language.say(word).to_owned();
    match entry.what {
        TimelineKind::Status => Some(reason(language, details)),
        TimelineKind::Payment => named(details).map(|reason| say(unapplied(reason))),
        TimelineKind::Refund => {
            let (by, failure) = details.split_once("; ").unwrap_or((details, ""));
            let by = RefundStrategy::named(by).map(|by| say(strategy(by)));
            let failure = Some(reason(language, failure)).filter(|failure| !failure.is_empty());
            Some(by.into_iter().chain(failure).collect::<Vec<_>>().join(": "))
        }
        TimelineKind::Case => named::<MoneyOutcome>(details).map(|outcome| say(outcome_name(outcome))),
        TimelineKind::Delivery => {
            let (_, rest) = details.split_once("; ")?;
            // After the status code comes the failure, which has the code too.
            let error = rest.split_once("; ").filter(|(code, _)| code.starts_with("answered "));
            Some(failure(language, error.map_or(rest, |(_, error)| error)))
        }
        TimelineKind::Posting | TimelineKind::Event => Some(without_documents(details)),
    }
}

pub(crate) fn action(language: Language, action: &str) -> &str {
    let of_account = || action.starts_with("account.").then_some(ACCOUNT_CHANGED);
    term(ACTIONS, action).or_else(of_account).map_or(action, |word| language.say(word))
}

/// The details of an audit row. Ids, addresses and names stay as they are.
pub(crate) fn details(language: Language, details: &str) -> String {
    let (text, label) =
        details.split_once(", label ").map_or((details, None), |(text, label)| (text, Some(label)));
    if text.contains('{') {
        return text.split_once(" became ").map(|change| changes(language, change)).unwrap_or_default();
    }
    let mut text = text.to_owned();
    for (phrase, word) in DETAILS.iter().filter(|(phrase, _)| phrase.contains(' ')) {
        text = text.replace(phrase, language.say(*word));
    }
    let mut shown: Vec<String> = Vec::new();
    let mut tokens = text.split(' ').peekable();
    while let Some(token) = tokens.next() {
        let bare = token.trim_end_matches([',', ';', ':']);
        let amount = tokens.peek().and_then(|next| next.trim_end_matches(',').parse().ok());
        let end = if let (Ok(currency), Some(minor)) = (Currency::parse(bare), amount) {
            shown.push(money(minor, currency));
            tokens.next().filter(|next| next.ends_with(',')).map_or("", |_| ",")
        } else {
            shown.push(code(language, bare).unwrap_or(bare).to_owned());
            token.get(bare.len()..).unwrap_or_default()
        };
        if let Some(last) = shown.last_mut() {
            last.push_str(end);
        }
    }
    if let (Some(label), Some(last)) = (label, shown.last_mut()) {
        last.push_str(", ");
        last.push_str(label);
    }
    without_documents(&shown.join(" "))
}

fn code(language: Language, code: &str) -> Option<&'static str> {
    let state = TransactionStatus::named(code).map(|status| status.shown().1);
    let state = state.or_else(|| EndpointStatus::named(code).map(|status| status.shown().1));
    let known = state.or_else(|| Role::named(code).map(w::of_role));
    let known = known.or_else(|| RefundStrategy::named(code).map(strategy));
    known.or_else(|| term(DETAILS, code)).map(|word| language.say(word))
}

/// The fields of a setting that a change altered. Those without a word are left out: the action says enough.
fn changes(language: Language, (before, after): (&str, &str)) -> String {
    let fields = |json: &str| serde_json::from_str::<Map<String, Value>>(json).unwrap_or_default();
    let (before, after) = (fields(before), fields(after));
    let text = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.clone(),
        _ => "—".to_owned(),
    };
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(*value));
    let changed = changed.filter_map(|(name, value)| {
        let word = language.say(field(name)?);
        Some(format!("{word}: {} → {}", text(before.get(name)), text(Some(value))))
    });
    without_documents(&changed.collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use domain::charge::PublicStatus;
    use domain::med::CaseKind;
    use domain::payout::PayoutStatus;
    use domain::webhook::event_type::EventType;

    use super::*;
    use crate::disputes::kind_name;

    fn coded<T: Vocabulary>(shown: impl Fn(T) -> Word) -> Vec<(String, Word)> {
        T::vocabulary().into_iter().map(|(code, each)| (code.to_owned(), shown(each))).collect()
    }

    fn states<T: Vocabulary + State>() -> Vec<(String, Word)> {
        coded(|state: T| state.shown().1)
    }

    #[test]
    fn every_state_has_words_in_three_languages_that_are_not_its_code() {
        let all = [
            states::<PublicStatus>(),
            states::<TransactionStatus>(),
            states::<RefundStatus>(),
            states::<PayoutStatus>(),
            states::<CaseStatus>(),
            states::<DeliveryStatus>(),
            states::<EndpointStatus>(),
            coded(w::of_role),
            coded(strategy),
            coded(|kind: CaseKind| kind_name(kind)),
        ];
        for (code, word) in all.into_iter().flatten() {
            for text in [word.pt, word.es, word.en] {
                assert!(!text.is_empty() && !text.contains('_'), "{code}: {text}");
            }
            // A chargeback has no other name in Portuguese.
            for text in [word.pt, word.es] {
                assert!(code == "chargeback" || !text.eq_ignore_ascii_case(&code), "{code}: {text}");
            }
        }
    }

    /// The literals of the service's sources.
    fn literals(directory: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                literals(&path, found);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let source = fs::read_to_string(&path).unwrap();
                found.extend(source.split('"').map(str::to_owned));
            }
        }
    }

    #[test]
    fn every_action_and_reason_of_the_service_has_words() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut found = BTreeSet::new();
        for directory in [
            "acquirers/kit/src",
            "acquirers/core/src",
            "domain/src",
            "effects/src",
            "money/src",
            "services/src",
            "shared/src",
            "admin/src",
            "functions/acquirer-events/src",
            "functions/api-keys/src",
            "functions/payments/src",
        ] {
            literals(&root.join(directory), &mut found);
        }
        for (text, _) in ACTIONS.iter().chain(REASONS) {
            assert!(found.contains(*text), "{text} is no longer a text of the service");
        }
        let nouns: BTreeSet<&str> =
            ACTIONS.iter().filter_map(|(action, _)| action.split('.').next()).collect();
        let is_action = |text: &&String| {
            let Some((noun, verb)) = text.split_once('.') else { return false };
            nouns.contains(noun)
                && noun != "account"
                && !verb.is_empty()
                && verb.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
        };
        let fields = ["customer.document", "customer.email", "customer.name", "customer.phone"];
        for action in found.iter().filter(is_action) {
            let is_other = EventType::named(action).is_some() || fields.contains(&action.as_str());
            assert!(is_other || term(ACTIONS, action).is_some(), "{action} has no words");
        }
    }

    #[test]
    fn the_details_of_audit_rows_are_words() {
        for (stored, shown) in [
            ("test BRL 5000, before: WAITING_PAYMENT", "teste R$ 50,00, antes: Aguardando pagamento"),
            ("test BRL 400 of ch_1, cashout to ***93", "teste R$ 4,00 de ch_1, Por um novo Pix → ***93"),
            ("live BRL 5000, lost: BRL 4000", "produção R$ 50,00, perdido: R$ 40,00"),
            ("ana@loja.example OWNER became MEMBER", "ana@loja.example Dono → Membro"),
            ("test status: ACTIVE to INACTIVE", "teste situação: Ativo → Pausado"),
            ("test events removed: charge.paid", "teste eventos retirados: charge.paid"),
            ("test, prefix ak_test_1, label \"to test\"", "teste, prefixo ak_test_1, \"to test\""),
            ("false became true", "não → sim"),
            (r#"{"name":"A","color":null} became {"name":"B","color":null}"#, "Nome: A → B"),
            (r#"was {"pix_key":"x"}"#, ""),
        ] {
            assert_eq!(details(Language::Portuguese, stored), shown);
        }
    }
}
