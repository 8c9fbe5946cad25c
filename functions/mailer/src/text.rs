//! Writes the texts of emails in Brazilian Portuguese, as pure functions of a row. Amounts and times have the
//! Brazilian format.
//!
//! Documents in the texts of payers and merchants are masked. Of an endpoint's URL an email contains only the
//! host, because the URL may contain a secret. The merchant can read both through the API.

use domain::account::Role;
use domain::charge::Charge;
use domain::ids::{EmailId, Mode};
use domain::med::{CaseKind, CaseStatus, MedCase, MoneyOutcome};
use domain::money::Amount;
use domain::pt_br;
use domain::refund::Refund;
use domain::time::Timestamp;
use effects::webhook::delivery::WaitingDeliveries;
use effects::webhook::endpoint::{Alerted, Endpoint};
use effects::webhook::words::{attempt_failure, disabled_reason};
use shared::language::Language;
use url::Url;

/// The most characters of a payer's or merchant's text in an email.
const MAX_QUOTED_CHARS: usize = 500;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Text {
    /// The subject: a single line.
    pub(crate) subject: String,
    /// The body; every line ends with a line break.
    pub(crate) body: String,
}

impl Text {
    fn new(subject: String, paragraphs: &[String]) -> Self {
        Self { subject, body: format!("{}\n", paragraphs.join("\n\n")) }
    }

    /// Adds a greeting, and in test mode a note that no real money moved.
    pub(crate) fn addressed(self, merchant_name: &str, mode: Mode) -> Self {
        let Self { subject, body } = self;
        // A line break in the name would split the greeting.
        let name: String = merchant_name.chars().filter(|letter| !letter.is_control()).collect();
        match mode {
            Mode::Live => Self { subject, body: format!("Olá, {name}.\n\n{body}") },
            Mode::Test => Self {
                subject: format!("[teste] {subject}"),
                body: format!(
                    "Olá, {name}.\n\nEste aviso é de um teste: nenhum dinheiro de verdade foi movido.\n\n{body}"
                ),
            },
        }
    }

    /// Adds a footer with the email's id, which a merchant can quote to the platform's support.
    pub(crate) fn signed(self, id: EmailId) -> Self {
        Self {
            body: format!("{}\nAviso automático {id}. Não responda a este e-mail.\n", self.body), ..self
        }
    }
}

/// Writes the email for a case that opened against a charge. When the email is sent late, it describes the
/// case's current status. `dashboard`: the URL of the dashboard.
pub(crate) fn opened(case: &MedCase, charge: &Charge, dashboard: &str) -> Text {
    let deadline = case.response_deadline.filter(|_| case.status == CaseStatus::Open);
    let until =
        deadline.map(|at| format!(", responder até {}", pt_br::format_minute(at))).unwrap_or_default();
    let subject = format!("Disputa aberta: {}{until}", contested(case));
    let mut fields = about(case, charge);
    fields.push(("Aberta em", moment(case.created_at)));
    let deadline = case.response_deadline.map_or_else(|| "não informado".to_owned(), moment);
    fields.push(("Responder até", deadline));
    let intro = "Uma disputa foi aberta contra um pagamento que você recebeu.".to_owned();
    let (money, what_to_do) = match case.status {
        CaseStatus::Open => (
            Some(retained(case)),
            "Você pode contestar a disputa, com a sua defesa e provas como a nota fiscal e o comprovante de entrega, ou aceitar a perda, em definitivo.",
        ),
        CaseStatus::Appealed => {
            (Some(retained(case)), "Você já contestou a disputa. Ainda pode enviar provas.")
        }
        // This email does not report the outcome, because the outcome has its own email, which can be turned
        // off.
        CaseStatus::Accepted | CaseStatus::Rejected | CaseStatus::Closed => {
            (None, "A disputa não espera mais resposta.")
        }
    };
    let link = where_to_answer(case, dashboard);
    let paragraphs = [Some(intro), Some(lines(&fields)), money, Some(what_to_do.to_owned()), Some(link)];
    Text::new(subject, &paragraphs.into_iter().flatten().collect::<Vec<_>>())
}

/// Writes the reminder of the deadline of a case. `None` when the case is answered, or the deadline has passed.
/// `dashboard`: as for [`opened`].
pub(crate) fn deadline(case: &MedCase, charge: &Charge, dashboard: &str, now: Timestamp) -> Option<Text> {
    let deadline =
        case.response_deadline.filter(|deadline| case.status == CaseStatus::Open && *deadline > now)?;
    let subject = format!("Disputa sem resposta até {}: {}", pt_br::format_minute(deadline), contested(case));
    let mut fields = about(case, charge);
    fields.push(("Responder até", moment(deadline)));
    let appeal = match &case.appeal_draft {
        Some(_) => "a contestação: há um rascunho no painel, que não foi enviado",
        None => "o texto da contestação",
    };
    let evidence = match case.evidence_count {
        0 => "provas, como a nota fiscal e o comprovante de entrega: nenhum arquivo foi enviado".to_owned(),
        count => format!("mais provas, se houver: arquivos já enviados: {count}"),
    };
    let paragraphs = [
        "Uma disputa contra um pagamento que você recebeu ainda não foi respondida. Depois do prazo, o banco do pagador decide sem a sua defesa."
            .to_owned(),
        lines(&fields),
        format!("O que falta:\n- {appeal}\n- {evidence}"),
        where_to_answer(case, dashboard),
    ];
    Some(Text::new(subject, &paragraphs))
}

/// Returns the fields by which a person recognises a case and the order that it contests.
fn about(case: &MedCase, charge: &Charge) -> Vec<(&'static str, String)> {
    let order = charge.metadata.order_number().map(|order| ("Pedido", quoted(&order)));
    // Each member may get the e-mail, so the name is as a MEMBER sees it.
    let customer = charge.customer_name(Role::Member).map(|name| ("Cliente", quoted(&name)));
    let description = charge.metadata.text("description").map(|text| ("Descrição", quoted(&text)));
    let fields = [
        Some(("Tipo", kind(case.kind).to_owned())),
        Some(("Valor disputado", pt_br::format_amount(case.amount, case.currency))),
        order,
        customer,
        description,
        Some(("Cobrança", case.id.charge().to_string())),
        Some(("Disputa", case.id.to_string())),
    ];
    fields.into_iter().flatten().collect()
}

fn where_to_answer(case: &MedCase, dashboard: &str) -> String {
    format!("A disputa no painel: {dashboard}/disputes/{}", case.id)
}

/// Returns the beginning of a payer's or merchant's text on one line, with documents masked.
pub(crate) fn quoted(sent: &str) -> String {
    // Masked before it is cut, so that no part of a document remains.
    domain::masking::one_line(sent.chars(), |_| false).chars().take(MAX_QUOTED_CHARS).collect()
}

fn retained(case: &MedCase) -> String {
    let (no_refunds, returned) = match case.kind {
        CaseKind::Med => ("Enquanto isso, a cobrança não pode ser devolvida.", "devolvido"),
        CaseKind::Chargeback | CaseKind::Dispute | CaseKind::Fraud => {
            ("Enquanto isso, a cobrança não pode ser estornada.", "estornado")
        }
    };
    if case.unconfirmed {
        return format!(
            "O valor disputado não é o da cobrança. Por isso nada foi retido ainda: a nossa equipe vai conferir a disputa. {no_refunds}"
        );
    }
    match moved(case) {
        Some(moved) => format!(
            "O valor de {moved} saiu do seu saldo disponível e fica retido até o fim da disputa. {no_refunds}"
        ),
        None => format!(
            "Nada foi retido por esta disputa, pois o valor da cobrança já tinha sido {returned}, ou estava retido ou perdido em outra disputa. {no_refunds}"
        ),
    }
}

/// Writes the email for a case against a charge that ended. `None` when the case has no outcome. `dashboard`: as
/// for [`opened`].
pub(crate) fn resolved(case: &MedCase, charge: &Charge, dashboard: &str) -> Option<Text> {
    let outcome = case.money_outcome?;
    let (how, result) = match outcome {
        MoneyOutcome::RefundedToMerchant => {
            ("a seu favor", "a decisão foi a seu favor, ou o pagador desistiu")
        }
        MoneyOutcome::ClosedWithoutRefund => ("sem devolução", "encerrada sem devolução do valor a você"),
        MoneyOutcome::Lost if case.status == CaseStatus::Accepted => ("com perda", "perda, que você aceitou"),
        MoneyOutcome::Lost => ("com perda", "perda: a decisão foi a favor do pagador"),
    };
    let wallet = match (outcome, moved(case)) {
        (MoneyOutcome::RefundedToMerchant, Some(moved)) => {
            format!("O valor de {moved}, que estava retido, voltou ao seu saldo disponível.")
        }
        (MoneyOutcome::ClosedWithoutRefund | MoneyOutcome::Lost, Some(moved)) => {
            format!("O valor de {moved} foi debitado da sua carteira em definitivo.")
        }
        // A card scheme gave all back.
        (_, None) if case.money_moves.iter().any(|moved| Some(moved.at) == case.closed_at) => {
            "O valor que estava retido voltou ao seu saldo disponível.".to_owned()
        }
        (_, None) => {
            "O seu saldo não mudou: nada estava retido por esta disputa, ou o que estava segue retido por outra."
                .to_owned()
        }
    };
    let taken_before = Amount::parse(case.lost).ok().map(|lost| {
        let lost = pt_br::format_amount(lost, case.currency);
        format!("Antes do fim da disputa, o banco já tinha devolvido {lost} ao pagador.")
    });
    let wallet = [taken_before, Some(wallet)].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let mut fields = vec![("Resultado", result.to_owned())];
    fields.extend(about(case, charge));
    fields.push(("Encerrada em", moment(case.closed_at.unwrap_or(case.updated_at))));
    let paragraphs = [
        "Uma disputa contra um pagamento que você recebeu foi encerrada.".to_owned(),
        lines(&fields),
        wallet,
        where_to_answer(case, dashboard),
    ];
    Some(Text::new(format!("Disputa encerrada, {how}: {}", contested(case)), &paragraphs))
}

/// Writes the email for an endpoint that the service disabled at `at`. `None` when the endpoint is active
/// again, was disabled again later, or has a new URL.
pub(crate) fn disabled(endpoint: &Endpoint, at: Timestamp, dashboard: &str) -> Option<Text> {
    let disabled = endpoint.disabled.as_ref().filter(|disabled| disabled.at == at)?;
    let failing_since = endpoint.failing_since?;
    let host = host_of(endpoint);
    let fields = [
        ("Endpoint", endpoint.id.to_string()),
        ("Servidor", host.clone()),
        ("Nada entregue desde", moment(failing_since)),
        ("Desligado em", moment(disabled.at)),
        ("Detalhe", disabled_reason(Language::Portuguese, disabled)),
    ];
    let paragraphs = [
        "Nenhum webhook chegou a um endpoint seu por cinco dias ou mais, e por isso ele foi desligado."
            .to_owned(),
        lines(&fields),
        "Ele não recebe mais eventos novos. O que já esperava por ele ainda é tentado até o fim.".to_owned(),
        "O que fazer, depois de corrigir o servidor: abra o endpoint no painel, escolha Reativar, e depois Reenviar tudo o que não chegou."
            .to_owned(),
        endpoint_link(endpoint, dashboard),
    ];
    Some(Text::new(format!("Endpoint de webhooks desligado: {host}"), &paragraphs))
}

/// Writes the email for an endpoint to which all attempts have failed for an hour or for a day. `None` when another
/// email has reported something newer, or the merchant has changed the endpoint. `dashboard`: as for [`opened`].
pub(crate) fn failing(
    endpoint: &Endpoint,
    at: Timestamp,
    waiting: &WaitingDeliveries,
    dashboard: &str,
) -> Option<Text> {
    let alert = endpoint.alert.filter(|alert| alert.at == at)?;
    let (since, host) = (endpoint.failing_since?, host_of(endpoint));
    let time = match alert.said {
        Alerted::Hour => "uma hora",
        Alerted::Day => "um dia",
        Alerted::Over => return None,
    };
    let most = if waiting.has_more { "mais de " } else { "" };
    let mut fields = vec![
        ("Endpoint", endpoint.id.to_string()),
        ("Servidor", host.clone()),
        ("Falhando desde", moment(since)),
        ("Entregas que esperam", format!("{most}{}", waiting.count)),
    ];
    let cause = waiting.last_failure.as_ref();
    fields.extend(cause.map(|why| ("Causa", attempt_failure(Language::Portuguese, why))));
    let paragraphs = [
        format!("Há {time} nenhum webhook chega a um endpoint seu."),
        lines(&fields),
        "Cada entrega é tentada 15 vezes em cerca de 53 horas. Depois de cinco dias sem nenhum sucesso, o endpoint é desligado."
            .to_owned(),
        endpoint_link(endpoint, dashboard),
    ];
    Some(Text::new(format!("Webhooks falhando há {time}: {host}"), &paragraphs))
}

/// Writes the email for an endpoint that works again after another email reported its failures. `None` when it fails
/// again. `dashboard`: as for [`opened`].
pub(crate) fn recovered(endpoint: &Endpoint, at: Timestamp, dashboard: &str) -> Option<Text> {
    endpoint.alert.filter(|alert| alert.said == Alerted::Over && alert.at == at)?;
    let host = host_of(endpoint);
    let fields = [("Endpoint", endpoint.id.to_string()), ("Servidor", host.clone()), ("Desde", moment(at))];
    let paragraphs = [
        "Um endpoint seu voltou a receber webhooks.".to_owned(),
        lines(&fields),
        "As entregas que esperam são tentadas de novo sozinhas. As que falharam em definitivo podem ser reenviadas na página do endpoint."
            .to_owned(),
        endpoint_link(endpoint, dashboard),
    ];
    Some(Text::new(format!("Webhooks funcionando de novo: {host}"), &paragraphs))
}

pub(crate) fn host_of(endpoint: &Endpoint) -> String {
    let host = Url::parse(&endpoint.url).ok().and_then(|url| url.host_str().map(str::to_owned));
    host.unwrap_or_else(|| "endereço desconhecido".to_owned())
}

fn endpoint_link(endpoint: &Endpoint, dashboard: &str) -> String {
    format!("O endpoint no painel: {dashboard}/webhooks/{}", endpoint.id)
}

/// Writes the email for the first refund to a Pix key of a third party. The key is masked, because it is
/// personal data. `None` when the refund has no key.
pub(crate) fn destination(refund: &Refund) -> Option<Text> {
    let key = refund.destination.as_ref()?.masked();
    let fields = [
        ("Chave Pix", key.clone()),
        ("Valor", pt_br::format_amount(refund.share.gross, refund.currency)),
        ("Cobrança", refund.id.charge().to_string()),
        ("Devolução", refund.id.to_string()),
        ("Pedida em", moment(refund.created_at)),
    ];
    let raw = refund.id.charge().raw();
    let paragraphs = [
        "Uma devolução foi pedida para uma chave Pix que não é do pagador e que nenhuma devolução sua tinha usado antes."
            .to_owned(),
        lines(&fields),
        format!("Se você reconhece a devolução, não precisa fazer nada. Pela API: GET /v1/payments/{raw}/refunds."),
        "Se você não a reconhece, revogue as suas chaves de API no painel e fale com o nosso suporte. Podemos limitar as devoluções da sua conta ao próprio pagador, ou a um valor por dia."
            .to_owned(),
    ];
    Some(Text::new(format!("Devolução para uma nova chave Pix: {key}"), &paragraphs))
}

fn contested(case: &MedCase) -> String {
    format!("{} de {}", kind(case.kind), pt_br::format_amount(case.amount, case.currency))
}

fn kind(kind: CaseKind) -> &'static str {
    match kind {
        CaseKind::Med => "Pix (MED)",
        CaseKind::Chargeback => "chargeback de cartão",
        CaseKind::Dispute => "disputa do pagador",
        CaseKind::Fraud => "relato de fraude",
    }
}

/// Formats the amount that an open case retains. After the case has ended, that is the amount returned to the
/// merchant or debited. `None` when the case moved no money.
fn moved(case: &MedCase) -> Option<String> {
    Amount::parse(case.moved).ok().map(|moved| pt_br::format_amount(moved, case.currency))
}

fn moment(at: Timestamp) -> String {
    format!("{} (horário de Brasília)", pt_br::format_minute(at))
}

fn lines(fields: &[(&str, String)]) -> String {
    let lines: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use domain::charge::Metadata;
    use domain::ids::{ChargeId, EndpointId, MedCaseId};
    use domain::med::CaseNotification;
    use domain::money::MinorUnits;
    use domain::webhook::failure::AttemptFailure;
    use effects::webhook::endpoint::{Disabled, EndpointStatus};

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn case() -> MedCase {
        let charge = crate::testing::paid();
        let notification = CaseNotification {
            id: None,
            kind: CaseKind::Med,
            reason: Some("Não reconheço, meu CPF é 295.379.955-93".to_owned()),
            method: None,
            response_deadline: Some(at("2026-12-01T00:00:00Z")),
            amount: None,
            reported_at: None,
        };
        let id = MedCaseId::derive(ChargeId::derive(b"salt", Mode::Live, "charges", "order-1"), "1");
        let opened = MedCase::open(id, &charge, &notification, at("2026-11-21T18:04:05Z")).unwrap();
        MedCase { amount: Amount::parse(123_456).unwrap(), moved: MinorUnits::new(123_456), ..opened.case }
    }

    fn charge() -> Charge {
        let sent = serde_json::json!({"order": "1001", "cpf": "529.982.247-25"});
        let description = Some("Camiseta para 529.982.247-25\u{202e}!");
        let mut charge = crate::testing::waiting();
        charge.customer.name = Some("Maria dos Santos".to_owned());
        Charge { metadata: Metadata::from_request(sent.as_object().unwrap(), description), ..charge }
    }

    const DASHBOARD: &str = "https://pay.example.com/dashboard";

    fn over(status: CaseStatus, outcome: MoneyOutcome) -> MedCase {
        let closed_at = Some(at("2026-11-28T15:00:00Z"));
        MedCase { status, money_outcome: Some(outcome), closed_at, ..case() }
    }

    /// What each email says of [`case`] and [`charge`].
    const ABOUT: &str = "\
Tipo: Pix (MED)
Valor disputado: R$ 1.234,56
Pedido: 1001
Cliente: Maria S.
Descrição: Camiseta para ***.982.247-** !
Cobrança: ch_4c43d7b9-b5b7-8bea-857f-3631b19e83f8
Disputa: med_2c8fbvkddqhfn8azsp66rsx0zrcmh1s0vnmtve58mw";

    fn whole(text: &Text) -> String {
        format!("{}\n\n{}", text.subject, text.body)
    }

    /// The whole email about [`case`], without [`ABOUT`].
    fn about_case(text: &Text) -> String {
        whole(text).replacen(ABOUT, "(the case and its charge)", 1)
    }

    #[test]
    fn a_reminder_of_a_deadline_says_what_is_missing_until_the_case_is_answered() {
        let text = |case: &MedCase, now| deadline(case, &charge(), DASHBOARD, at(now));
        let before = "2026-11-29T00:00:00Z";
        insta::assert_snapshot!(about_case(&text(&case(), before).unwrap()), @r"
        Disputa sem resposta até 30/11/2026 às 21:00: Pix (MED) de R$ 1.234,56

        Uma disputa contra um pagamento que você recebeu ainda não foi respondida. Depois do prazo, o banco do pagador decide sem a sua defesa.

        (the case and its charge)
        Responder até: 30/11/2026 às 21:00 (horário de Brasília)

        O que falta:
        - o texto da contestação
        - provas, como a nota fiscal e o comprovante de entrega: nenhum arquivo foi enviado

        A disputa no painel: https://pay.example.com/dashboard/disputes/med_2c8fbvkddqhfn8azsp66rsx0zrcmh1s0vnmtve58mw
        ");
        let draft = MedCase { appeal_draft: Some("Entregue".to_owned()), evidence_count: 2, ..case() };
        let said = text(&draft, before).unwrap().body;
        assert!(said.contains("há um rascunho no painel") && said.contains("já enviados: 2"), "{said}");
        assert_eq!(text(&case(), "2026-12-01T00:00:00Z"), None, "the deadline has passed");
        assert_eq!(text(&MedCase { status: CaseStatus::Appealed, ..case() }, before), None);
        assert_eq!(text(&MedCase { response_deadline: None, ..case() }, before), None);
    }

    #[test]
    fn the_email_of_an_opened_case_has_its_deadline_and_next_steps() {
        insta::assert_snapshot!(about_case(&opened(&case(), &charge(), DASHBOARD)), @r"
        Disputa aberta: Pix (MED) de R$ 1.234,56, responder até 30/11/2026 às 21:00

        Uma disputa foi aberta contra um pagamento que você recebeu.

        (the case and its charge)
        Aberta em: 21/11/2026 às 15:04 (horário de Brasília)
        Responder até: 30/11/2026 às 21:00 (horário de Brasília)

        O valor de R$ 1.234,56 saiu do seu saldo disponível e fica retido até o fim da disputa. Enquanto isso, a cobrança não pode ser devolvida.

        Você pode contestar a disputa, com a sua defesa e provas como a nota fiscal e o comprovante de entrega, ou aceitar a perda, em definitivo.

        A disputa no painel: https://pay.example.com/dashboard/disputes/med_2c8fbvkddqhfn8azsp66rsx0zrcmh1s0vnmtve58mw
        ");
    }

    #[test]
    fn an_email_contains_no_document_and_no_route_of_the_api() {
        let long = format!("{} 295.379.955-93", "x".repeat(MAX_QUOTED_CHARS - 8));
        let split = MedCase { reason: Some(long), ..case() };
        for case in [case(), split, over(CaseStatus::Rejected, MoneyOutcome::Lost)] {
            let texts = [Some(opened(&case, &charge(), DASHBOARD)), resolved(&case, &charge(), DASHBOARD)];
            for text in texts.iter().flatten().map(whole) {
                assert!(["295.", "529", "/v1/"].iter().all(|absent| !text.contains(absent)), "{text}");
            }
        }
    }

    #[test]
    fn the_email_of_a_case_that_retained_nothing_says_so() {
        let unconfirmed =
            MedCase { moved: MinorUnits::ZERO, unconfirmed: true, response_deadline: None, ..case() };
        let unconfirmed = opened(&unconfirmed, &crate::testing::waiting(), DASHBOARD);
        assert_eq!(unconfirmed.subject, "Disputa aberta: Pix (MED) de R$ 1.234,56");
        for said in [
            "\nResponder até: não informado\n",
            "\n\nO valor disputado não é o da cobrança. Por isso nada foi retido ainda: a nossa equipe vai conferir a disputa. Enquanto isso, a cobrança não pode ser devolvida.\n\n",
        ] {
            assert!(unconfirmed.body.contains(said), "{}", unconfirmed.body);
        }
        assert!(!unconfirmed.body.contains("Pedido") && !unconfirmed.body.contains("Descrição"));
        let nothing_left = opened(&MedCase { moved: MinorUnits::ZERO, ..case() }, &charge(), DASHBOARD);
        assert!(
            nothing_left.body.contains("Nada foi retido por esta disputa, pois"),
            "{}",
            nothing_left.body
        );
    }

    #[test]
    fn a_late_email_of_an_opened_case_describes_its_current_status() {
        let appealed = MedCase { status: CaseStatus::Appealed, ..case() };
        let text = opened(&appealed, &charge(), DASHBOARD);
        assert!(text.body.contains("Você já contestou a disputa."), "{}", text.body);
        assert!(!text.body.contains("aceitar a perda") && !text.subject.contains("responder"));
        let text = opened(&over(CaseStatus::Closed, MoneyOutcome::RefundedToMerchant), &charge(), DASHBOARD);
        assert!(text.body.contains("não espera mais resposta"), "{}", text.body);
        assert!(!text.body.contains("fica retido") && !text.body.contains("contestar"));
    }

    #[test]
    fn the_email_of_an_ended_case_says_where_the_money_went() {
        assert_eq!(resolved(&case(), &charge(), DASHBOARD), None);
        let won = over(CaseStatus::Closed, MoneyOutcome::RefundedToMerchant);
        insta::assert_snapshot!(about_case(&resolved(&won, &charge(), DASHBOARD).unwrap()), @r"
        Disputa encerrada, a seu favor: Pix (MED) de R$ 1.234,56

        Uma disputa contra um pagamento que você recebeu foi encerrada.

        Resultado: a decisão foi a seu favor, ou o pagador desistiu
        (the case and its charge)
        Encerrada em: 28/11/2026 às 12:00 (horário de Brasília)

        O valor de R$ 1.234,56, que estava retido, voltou ao seu saldo disponível.

        A disputa no painel: https://pay.example.com/dashboard/disputes/med_2c8fbvkddqhfn8azsp66rsx0zrcmh1s0vnmtve58mw
        ");
        let said = |case: &MedCase| {
            let text = resolved(case, &charge(), DASHBOARD).unwrap();
            let lines: Vec<&str> = text
                .body
                .lines()
                .filter(|line| {
                    line.starts_with("Resultado") || line.contains(" saldo ") || line.contains("carteira")
                })
                .collect();
            format!("{}\n{}", text.subject, lines.join("\n"))
        };
        insta::assert_snapshot!(said(&over(CaseStatus::Accepted, MoneyOutcome::Lost)), @r"
        Disputa encerrada, com perda: Pix (MED) de R$ 1.234,56
        Resultado: perda, que você aceitou
        O valor de R$ 1.234,56 foi debitado da sua carteira em definitivo.
        ");
        insta::assert_snapshot!(said(&over(CaseStatus::Rejected, MoneyOutcome::Lost)), @r"
        Disputa encerrada, com perda: Pix (MED) de R$ 1.234,56
        Resultado: perda: a decisão foi a favor do pagador
        O valor de R$ 1.234,56 foi debitado da sua carteira em definitivo.
        ");
        insta::assert_snapshot!(said(&over(CaseStatus::Closed, MoneyOutcome::ClosedWithoutRefund)), @r"
        Disputa encerrada, sem devolução: Pix (MED) de R$ 1.234,56
        Resultado: encerrada sem devolução do valor a você
        O valor de R$ 1.234,56 foi debitado da sua carteira em definitivo.
        ");
        let in_part =
            MedCase { lost: MinorUnits::new(1_000), ..over(CaseStatus::Rejected, MoneyOutcome::Lost) };
        insta::assert_snapshot!(said(&in_part), @r"
        Disputa encerrada, com perda: Pix (MED) de R$ 1.234,56
        Resultado: perda: a decisão foi a favor do pagador
        Antes do fim da disputa, o banco já tinha devolvido R$ 10,00 ao pagador. O valor de R$ 1.234,56 foi debitado da sua carteira em definitivo.
        ");
        let nothing =
            MedCase { moved: MinorUnits::ZERO, ..over(CaseStatus::Closed, MoneyOutcome::RefundedToMerchant) };
        insta::assert_snapshot!(said(&nothing), @r"
        Disputa encerrada, a seu favor: Pix (MED) de R$ 1.234,56
        Resultado: a decisão foi a seu favor, ou o pagador desistiu
        O seu saldo não mudou: nada estava retido por esta disputa, ou o que estava segue retido por outra.
        ");
    }

    #[test]
    fn the_email_of_a_disabled_endpoint_says_how_to_reactivate_it() {
        let (since, off_at) = (at("2026-11-21T18:04:05Z"), at("2026-11-26T18:04:05Z"));
        let url = "https://shop.example.com/hook?token=s3cret".to_owned();
        let id = EndpointId::new(at("2026-01-01T00:00:00Z"), [7; 10]);
        let endpoint = Endpoint {
            status: EndpointStatus::Inactive,
            failing_since: Some(since),
            disabled: Some(Disabled { at: off_at, since, last: AttemptFailure::Answered(502) }),
            ..Endpoint::new(case().scope, id, (url, Vec::new()), off_at)
        };
        let text = whole(&disabled(&endpoint, off_at, DASHBOARD).unwrap());
        insta::assert_snapshot!(text, @r#"
        Endpoint de webhooks desligado: shop.example.com

        Nenhum webhook chegou a um endpoint seu por cinco dias ou mais, e por isso ele foi desligado.

        Endpoint: wh_01kdvdna000w3ge1r70w3ge1r7
        Servidor: shop.example.com
        Nada entregue desde: 21/11/2026 às 15:04 (horário de Brasília)
        Desligado em: 26/11/2026 às 15:04 (horário de Brasília)
        Detalhe: nenhuma tentativa iniciada desde 21/11/2026 15:04 teve sucesso. A última: O servidor respondeu com o status HTTP 502.

        Ele não recebe mais eventos novos. O que já esperava por ele ainda é tentado até o fim.

        O que fazer, depois de corrigir o servidor: abra o endpoint no painel, escolha Reativar, e depois Reenviar tudo o que não chegou.

        O endpoint no painel: https://pay.example.com/dashboard/webhooks/wh_01kdvdna000w3ge1r70w3ge1r7
        "#);
        assert!(!text.contains("s3cret"));
        assert_eq!(
            disabled(&endpoint, at("2026-11-01T00:00:00Z"), DASHBOARD),
            None,
            "the endpoint was disabled at another time"
        );
        assert_eq!(
            disabled(&Endpoint { failing_since: None, ..endpoint.clone() }, off_at, DASHBOARD),
            None,
            "the endpoint's URL changed"
        );
        assert_eq!(disabled(&Endpoint { disabled: None, ..endpoint }, off_at, DASHBOARD), None);
    }

    #[test]
    fn an_email_greets_the_merchant_and_is_marked_in_test_mode() {
        let text = Text::new("Assunto".to_owned(), &["Um.".to_owned(), "Dois.".to_owned()]);
        let id = EmailId::derive(at("2026-11-21T00:00:00Z"), "row", 1, "kind");
        let live = text.clone().addressed("Loja\r\n Exemplo", Mode::Live).signed(id);
        insta::assert_snapshot!(whole(&live), @r"
        Assunto

        Olá, Loja Exemplo.

        Um.

        Dois.

        Aviso automático ntc_01m7xpe60060m6r6qfz6vm4z3z. Não responda a este e-mail.
        ");
        let of_test = text.addressed("Loja Exemplo", Mode::Test);
        insta::assert_snapshot!(whole(&of_test), @r"
        [teste] Assunto

        Olá, Loja Exemplo.

        Este aviso é de um teste: nenhum dinheiro de verdade foi movido.

        Um.

        Dois.
        ");
    }
}
