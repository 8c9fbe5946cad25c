//! Writes the texts of emails to users of the dashboard, in the user's language.

use std::collections::HashMap;

use domain::account::Role;
use domain::audit::Audit;
use domain::charge::Charge;
use domain::ids::{ApiKeyId, EmailId, UserId};
use domain::money::{Currency, MinorUnits, Money};
use domain::pt_br;
use domain::report::ReportSpec;
use domain::time::Timestamp;
use effects::email::access::AccessChange;
use money::wallet::Sales;
use services::{DayMoney, DaySummary, EndpointTrouble};
use shared::account::LinkToken;
use shared::language::{Language, Word};

use crate::text::{Text, host_of, quoted};

shared::words! { ,
    INVITE_SUBJECT = "Convite para o painel de {}", "Invitation to the dashboard of {}", "Invitación al panel de {}";
    INVITE_BODY = "Você foi convidado para o painel de {}.\n\nAbra este link e escolha uma senha. Ele vale por 72 horas e só uma vez:\n{}\n\nSe você não esperava o convite, ignore este e-mail.", "You were invited to the dashboard of {}.\n\nOpen this link and choose a password. It is valid for 72 hours and only once:\n{}\n\nIf you did not expect the invitation, ignore this e-mail.", "Le invitaron al panel de {}.\n\nAbra este enlace y elija una contraseña. Vale 72 horas y una sola vez:\n{}\n\nSi no esperaba la invitación, ignore este correo.";
    RESET_SUBJECT = "Nova senha do painel", "New password for the dashboard", "Nueva contraseña del panel";
    RESET_BODY = "Uma nova senha foi pedida para este endereço. Abra este link e escolha a senha. Ele vale por 30 minutos e só uma vez:\n{}\n\nSe não foi você, ignore este e-mail: a senha continua a mesma.", "A new password was requested for this address. Open this link and choose the password. It is valid for 30 minutes and only once:\n{}\n\nIf it was not you, ignore this e-mail: the password stays the same.", "Se pidió una nueva contraseña para esta dirección. Abra este enlace y elija la contraseña. Vale 30 minutos y una sola vez:\n{}\n\nSi no fue usted, ignore este correo: la contraseña sigue igual.";
    REPORT_SUBJECT = "Relatório pronto: {}", "Report ready: {}", "Informe listo: {}";
    REPORT_BODY = "O relatório de {}, de {} a {}, está pronto. Baixe-o no painel, em Relatórios, por 90 dias:\n{}/reports", "The report of {}, from {} to {}, is ready. Download it at the dashboard, in Reports, for 90 days:\n{}/reports", "El informe de {}, del {} al {}, está listo. Descárguelo en el panel, en Informes, por 90 días:\n{}/reports";
    ACCESS_SUBJECT = "Mudança de acesso: {}", "Change of access: {}", "Cambio de acceso: {}";
    ACCESS_BODY = "Isto mudou no acesso à conta {} (horários UTC-3):\n\n{}\n\nSe você reconhece tudo, não precisa fazer nada. Se não, escolha já outra senha e avise um proprietário da conta:\n{}/reset\n\nRemova no painel as chaves, os membros e as sessões que você não reconhece. A auditoria mostra todas as ações:\n{}/audit", "This changed in the access to the account {} (times in UTC-3):\n\n{}\n\nIf you recognise all of it, you do not need to do anything. If not, choose another password now, and inform an owner of the account:\n{}/reset\n\nAt the dashboard, remove the keys, members and sessions that you do not recognise. The audit shows all actions:\n{}/audit", "Esto cambió en el acceso a la cuenta {} (horas UTC-3):\n\n{}\n\nSi lo reconoce todo, no tiene que hacer nada. Si no, elija ya otra contraseña y avise a un dueño de la cuenta:\n{}/reset\n\nQuite en el panel las claves, los miembros y las sesiones que no reconoce. La auditoría muestra todas las acciones:\n{}/audit";
    LIVE_KEY = "nova chave de API de produção, {}…", "new live API key, {}…", "nueva clave de API de producción, {}…";
    NEW_OWNER = "novo proprietário: {}", "new owner: {}", "nuevo dueño: {}";
    NEW_ADMIN = "novo administrador: {}", "new administrator: {}", "nuevo administrador: {}";
    OWNER_LOST = "deixou de ser proprietário: {}", "no longer an owner: {}", "dejó de ser dueño: {}";
    LIVE_ENDPOINT = "novo endereço de webhooks de produção: {}", "new address of live webhooks: {}", "nueva dirección de webhooks de producción: {}";
    PAYOUT_KEY = "nova chave Pix para repasses: {}; funciona 48 horas depois, se o suporte a aprovar", "new Pix key for payouts: {}; it works 48 hours later, if the operator approves it", "nueva clave Pix para retiros: {}; funciona 48 horas después, si el operador la aprueba";
    PAYOUT_KEY_APPROVED = "chave Pix para repasses aprovada: {}", "Pix key for payouts approved: {}", "clave Pix para retiros aprobada: {}";
    PAYOUT_KEY_REJECTED = "chave Pix para repasses recusada: {}", "Pix key for payouts rejected: {}", "clave Pix para retiros rechazada: {}";
    PASSWORD = "a sua senha foi trocada, e as suas sessões terminaram", "your password was changed, and your sessions have ended", "su contraseña fue cambiada, y sus sesiones terminaron";
    FACTOR_OFF = "a sua verificação em duas etapas foi desativada", "your second factor was turned off", "su verificación en dos pasos fue desactivada";
    FACTOR_ON = "a sua verificação em duas etapas foi ativada", "your second factor was turned on", "su verificación en dos pasos fue activada";
    BY = "por {}", "by {}", "por {}";
    BY_OPERATOR = "pela equipe do serviço", "by the service's team", "por el equipo del servicio";
    SALE_SUBJECT = "Venda: {}", "Sale: {}", "Venta: {}";
    SALE_BODY = "{} recebeu {} em {} (horário de Brasília).{}\n\nA cobrança no painel: {}/charges/{}\n\n{}", "{} received {} on {} (time of Brasília).{}\n\nThe charge at the dashboard: {}/charges/{}\n\n{}", "{} recibió {} el {} (hora de Brasilia).{}\n\nEl cobro en el panel: {}/charges/{}\n\n{}";
    ORDER = "Pedido: {}", "Order: {}", "Pedido: {}";
    CUSTOMER = "Cliente: {}", "Customer: {}", "Cliente: {}";
    SALES_BODY = "{} recebeu estas vendas em {} (horário de Brasília):\n\n{}\n\nAs cobranças no painel: {}/charges?status=paid\n\n{}", "{} received these sales on {} (time of Brasília):\n\n{}\n\nThe charges at the dashboard: {}/charges?status=paid\n\n{}", "{} recibió estas ventas el {} (hora de Brasilia):\n\n{}\n\nLos cobros en el panel: {}/charges?status=paid\n\n{}";
    ONE_SALE = "1 venda, {}", "1 sale, {}", "1 venta, {}";
    MORE_SALES = "{} vendas, {}", "{} sales, {}", "{} ventas, {}";
    NO_SALES = "Nenhuma venda", "No sales", "Ninguna venta";
    SUMMARY_SUBJECT = "Resumo de {}: {}", "Summary of {}: {}", "Resumen del {}: {}";
    SUMMARY_BODY = "{}, dia {}:\n\n{}\n\nAgora:\n\n{}\n\nO painel: {}\n\n{}", "{}, on {}:\n\n{}\n\nNow:\n\n{}\n\nThe dashboard: {}\n\n{}", "{}, el {}:\n\n{}\n\nAhora:\n\n{}\n\nEl panel: {}\n\n{}";
    REFUNDED = "Devolvido ou estornado: {}", "Refunded: {}", "Devuelto: {}";
    NO_REFUNDS = "Nenhuma devolução", "No refunds", "Ninguna devolución";
    DISPUTES = "Disputas que esperam a sua resposta: {}", "Disputes that wait for your answer: {}", "Disputas que esperan su respuesta: {}";
    NO_DISPUTES = "Nenhuma disputa espera a sua resposta", "No dispute waits for your answer", "Ninguna disputa espera su respuesta";
    ENDPOINT_FAILS = "O endpoint de webhooks {} falha desde {}", "The webhook endpoint {} has been failing since {}", "El endpoint de webhooks {} falla desde el {}";
    ENDPOINT_OFF = "O endpoint de webhooks {} foi desligado em {}", "The webhook endpoint {} was switched off on {}", "El endpoint de webhooks {} fue desactivado el {}";
    NO_TROUBLE = "Nenhum endpoint de webhooks falha", "No webhook endpoint fails", "Ningún endpoint de webhooks falla";
    HOW_TO_STOP = "Para mudar ou parar estes e-mails: {}/settings", "To change or stop these e-mails: {}/settings", "Para cambiar o detener estos correos: {}/settings";
    SIGNATURE = "Aviso automático {}. Não responda a este e-mail.", "Automatic e-mail {}. Do not reply to it.", "Aviso automático {}. No responda a este correo.";
}

pub(crate) struct Writer<'a> {
    pub(crate) id: EmailId,
    pub(crate) language: Language,
    pub(crate) dashboard: &'a str,
}

impl Writer<'_> {
    pub(crate) fn invited(&self, merchant_name: &str, token: &LinkToken) -> Text {
        let name = quoted(merchant_name);
        let link = format!("{}/invite/{}", self.dashboard, token.as_str());
        self.text((INVITE_SUBJECT, &[&name]), (INVITE_BODY, &[&name, &link]))
    }

    pub(crate) fn reset(&self, token: &LinkToken) -> Text {
        let link = format!("{}/reset/{}", self.dashboard, token.as_str());
        self.text((RESET_SUBJECT, &[]), (RESET_BODY, &[&link]))
    }

    pub(crate) fn report_ready(&self, merchant_name: &str, spec: &ReportSpec) -> Text {
        let [from, to] = [spec.from, spec.to].map(pt_br::format_day);
        let body = [&quoted(merchant_name), from.as_str(), &to, self.dashboard];
        self.text((REPORT_SUBJECT, &[&spec.file_name()]), (REPORT_BODY, &body))
    }

    /// The only sale of a minute.
    pub(crate) fn sale(&self, merchant_name: &str, charge: &Charge, role: Role) -> Text {
        let amount = pt_br::format_amount(charge.amount, charge.currency);
        let order = charge.metadata.order_number().map(|order| (ORDER, order));
        let known = order.into_iter().chain(charge.customer_name(role).map(|name| (CUSTOMER, name)));
        let lines: Vec<String> =
            known.map(|(word, value)| self.language.fill(word, &[&quoted(&value)])).collect();
        let facts = if lines.is_empty() { String::new() } else { format!("\n\n{}", lines.join("\n")) };
        let paid_at =
            pt_br::format_short_minute(charge.settlement.map_or(charge.updated_at, |settled| settled.at));
        let (name, id) = (quoted(merchant_name), charge.id.to_string());
        let body = [&*name, &amount, &paid_at, &facts, self.dashboard, &id, &self.how_to_stop()];
        self.text((SALE_SUBJECT, &[&amount]), (SALE_BODY, &body))
    }

    /// The sales of the minute that begins at `at`.
    pub(crate) fn sold(&self, merchant_name: &str, sales: &Sales, at: Timestamp) -> Text {
        let more = if sales.has_more { "+" } else { "" };
        let money = |currency: Currency, minor: MinorUnits| {
            format!("{}{more}", pt_br::format_money(Money { minor, currency }))
        };
        let sums: Vec<String> =
            sales.sums.iter().map(|(currency, (_, minor))| money(*currency, *minor)).collect();
        let lines: Vec<String> = sales
            .sums
            .iter()
            .map(|(currency, (count, minor))| {
                self.sales(&format!("{count}{more}"), &money(*currency, *minor))
            })
            .collect();
        let count = format!("{}{more}", sales.count());
        let (name, minute) = (quoted(merchant_name), pt_br::format_short_minute(at));
        let body = [&*name, &minute, &listed(&lines), self.dashboard, &self.how_to_stop()];
        self.text((MORE_SALES, &[&count, &sums.join(" + ")]), (SALES_BODY, &body))
    }

    pub(crate) fn summary(&self, merchant_name: &str, summary: &DaySummary) -> Text {
        let money = |minor: i64, currency: Currency| {
            pt_br::format_money(Money { minor: MinorUnits::new(minor), currency })
        };
        let all = || std::iter::once(&summary.primary).chain(&summary.others);
        let sold = |day: &DayMoney| self.sales(&day.sales.to_string(), &money(day.received, day.currency));
        let mut sales: Vec<String> = all().filter(|day| day.sales > 0).map(sold).collect();
        if sales.is_empty() {
            sales.push(self.language.say(NO_SALES).to_owned());
        }
        let subject = sales.join(" + ");
        let refunded = all().filter(|day| day.refunded != 0);
        let mut refunds: Vec<String> =
            refunded.map(|day| self.language.fill(REFUNDED, &[&money(day.refunded, day.currency)])).collect();
        if refunds.is_empty() {
            refunds.push(self.language.say(NO_REFUNDS).to_owned());
        }
        let disputes = if summary.disputes.is_none() {
            self.language.say(NO_DISPUTES).to_owned()
        } else {
            self.language.fill(DISPUTES, &[&summary.disputes.to_string()])
        };
        let mut waiting = vec![disputes];
        waiting.extend(summary.endpoints.iter().map(|(endpoint, trouble)| {
            let (word, at) = match *trouble {
                EndpointTrouble::Fails(since) => (ENDPOINT_FAILS, since),
                EndpointTrouble::SwitchedOff(at) => (ENDPOINT_OFF, at),
            };
            self.language.fill(word, &[&host_of(endpoint), &pt_br::format_short_minute(at)])
        }));
        if summary.endpoints.is_empty() {
            waiting.push(self.language.say(NO_TROUBLE).to_owned());
        }
        let (name, day) = (quoted(merchant_name), pt_br::format_day(summary.day));
        let money = listed(&[sales, refunds].concat());
        let body = [&*name, &day, &money, &listed(&waiting), self.dashboard, &self.how_to_stop()];
        self.text((SUMMARY_SUBJECT, &[&day, &subject]), (SUMMARY_BODY, &body))
    }

    fn sales(&self, count: &str, sum: &str) -> String {
        if count == "1" {
            self.language.fill(ONE_SALE, &[sum])
        } else {
            self.language.fill(MORE_SALES, &[count, sum])
        }
    }

    fn how_to_stop(&self) -> String {
        self.language.fill(HOW_TO_STOP, &[self.dashboard])
    }

    /// `rows`: of changes of access, the oldest first. `emails`: those of the users who made them.
    pub(crate) fn access_changed(
        &self,
        merchant_name: &str,
        rows: &[&Audit],
        emails: &HashMap<UserId, String>,
    ) -> Text {
        let name = quoted(merchant_name);
        let lines: Vec<String> = rows.iter().filter_map(|row| self.access_line(row, emails)).collect();
        let body = [name.as_str(), &lines.join("\n"), self.dashboard, self.dashboard];
        self.text((ACCESS_SUBJECT, &[&name]), (ACCESS_BODY, &body))
    }

    fn access_line(&self, row: &Audit, emails: &HashMap<UserId, String>) -> Option<String> {
        let (word, value) = match AccessChange::of(row)? {
            AccessChange::LiveKey(prefix) => (LIVE_KEY, prefix),
            AccessChange::Manager(email, Role::Owner) => (NEW_OWNER, email),
            AccessChange::Manager(email, _) => (NEW_ADMIN, email),
            AccessChange::OwnerLost(email) => (OWNER_LOST, email),
            AccessChange::LiveEndpoint(server) => (LIVE_ENDPOINT, server),
            AccessChange::PayoutKey(key) => (PAYOUT_KEY, key),
            AccessChange::PayoutKeyApproved(key) => (PAYOUT_KEY_APPROVED, key),
            AccessChange::PayoutKeyRejected(key) => (PAYOUT_KEY_REJECTED, key),
            AccessChange::Password => (PASSWORD, ""),
            AccessChange::SecondFactorOff => (FACTOR_OFF, ""),
            AccessChange::SecondFactorOn => (FACTOR_ON, ""),
        };
        let change = self.language.fill(word, &[&quoted(value)]);
        let email = row.actor.parse().ok().and_then(|user: UserId| emails.get(&user)).map(String::as_str);
        let key = Some(row.actor.as_str()).filter(|actor| actor.parse::<ApiKeyId>().is_ok());
        // Any other actor is an operator, whose name is the service's own affair.
        let by = email
            .or(key)
            .map_or(self.language.say(BY_OPERATOR).to_owned(), |actor| self.language.fill(BY, &[actor]));
        let source = row.source.ip().map(|ip| format!(" ({ip})")).unwrap_or_default();
        Some(format!("- {}: {change}, {by}{source}", pt_br::format_short_minute(row.at)))
    }

    fn text(&self, subject: (Word, &[&str]), body: (Word, &[&str])) -> Text {
        let fill = |(word, values): (Word, &[&str])| self.language.fill(word, values);
        let signature = fill((SIGNATURE, &[&self.id.to_string()]));
        Text { subject: fill(subject), body: format!("{}\n\n{signature}\n", fill(body)) }
    }
}

fn listed(lines: &[String]) -> String {
    lines.iter().map(|line| format!("- {line}")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use domain::audit::{Action, AuditedKey, Operator};
    use domain::calendar::Day;
    use domain::ids::{AuditId, Mode};
    use services::WaitingDisputes;
    use shared::language::Language;

    use super::*;

    const ANA: &str = "ana@loja.example";

    #[test]
    fn each_email_has_its_link_in_each_language() {
        let at: Timestamp = "2026-11-21T18:04:05.678Z".parse().unwrap();
        let (id, token) = (EmailId::derive(at, "row", 1, "kind"), LinkToken::random().unwrap());
        for language in Language::ALL {
            let writer = Writer { id, language, dashboard: "https://pay.example.com/dashboard" };
            let invited = writer.invited("Loja\nExemplo 529.982.247-25", &token);
            assert!(invited.subject.ends_with("Loja Exemplo ***.982.247-**"), "{invited:?}");
            let link = |path: &str| format!("\nhttps://pay.example.com/dashboard/{path}\n");
            assert!(invited.body.contains(&link(&format!("invite/{}", token.as_str()))), "{invited:?}");
            let reset = writer.reset(&token);
            assert!(reset.body.contains(&link(&format!("reset/{}", token.as_str()))), "{reset:?}");
            let (ana, account) = (UserId::from_email(ANA), "acc_0123456789abcdef".parse().unwrap());
            let by_ana = Operator { actor: ana.to_string(), ..Operator::default() };
            let by_operator = Operator { actor: "rita".to_owned(), ..Operator::default() };
            let row = |operator: &Operator, action| {
                let id = (AuditId::new(at, [0; 10]), at);
                Audit::by_operator(operator, account, id, action, ana)
            };
            let (prefix, label) = ("ak_live_1".to_owned(), "x".to_owned());
            let rows = [
                row(&by_ana, Action::IssueKey(AuditedKey { mode: Mode::Live, prefix, label })),
                row(&by_operator, Action::SecondFactorOff { email: ANA.to_owned() }),
            ];
            let emails = HashMap::from([(ana, ANA.to_owned())]);
            let changed = writer.access_changed("Loja", &rows.each_ref(), &emails);
            assert!(changed.body.contains(&link("reset")) && changed.body.contains(&link("audit")));
            assert!(
                !changed.body.contains("rita") && changed.body.matches("\n- 21/11/2026 15:04: ").count() == 2
            );
            assert!(changed.body.contains("ak_live_1…") && changed.body.contains(ANA), "{changed:?}");
            let sale = writer.sale("Loja", &crate::testing::paid(), Role::Member);
            let sum = |minor| MinorUnits::new(minor);
            let sums = [(Currency::BRL, (2, sum(3_050))), (Currency::EUR, (1, sum(700)))].into();
            let sold = writer.sold("Loja", &Sales { sums, ..Sales::default() }, at);
            assert!(sold.subject.starts_with("3 ") && sold.subject.ends_with(", R$ 30,50 + EUR 7,00"));
            let primary = DayMoney { currency: Currency::BRL, sales: 1, received: 700, refunded: 0 };
            let (disputes, day) = (WaitingDisputes { count: 3, has_more: false }, Day::of(at));
            let summary = DaySummary { day, primary, others: Vec::new(), disputes, endpoints: Vec::new() };
            let summary = writer.summary("Loja", &summary);
            for text in [invited, reset, changed, sale, sold, summary] {
                assert!(!text.body.contains("{}") && text.body.contains(&id.to_string()), "{text:?}");
            }
        }
    }
}
