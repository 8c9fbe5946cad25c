//! Writes the texts of emails to users of the dashboard, in the user's language.

use domain::ids::EmailId;
use domain::pt_br;
use domain::time::Timestamp;
use shared::account::LinkToken;
use shared::language::{Language, Word};

use crate::text::{Text, quoted};

shared::words! { ,
    INVITE_SUBJECT = "Convite para o painel de {}", "Invitation to the dashboard of {}", "Invitación al panel de {}";
    INVITE_BODY = "Você foi convidado para o painel de {}.\n\nAbra este link e escolha uma senha. Ele vale por 72 horas e só uma vez:\n{}\n\nSe você não esperava o convite, ignore este e-mail.", "You were invited to the dashboard of {}.\n\nOpen this link and choose a password. It is valid for 72 hours and only once:\n{}\n\nIf you did not expect the invitation, ignore this e-mail.", "Le invitaron al panel de {}.\n\nAbra este enlace y elija una contraseña. Vale 72 horas y una sola vez:\n{}\n\nSi no esperaba la invitación, ignore este correo.";
    RESET_SUBJECT = "Nova senha do painel", "New password for the dashboard", "Nueva contraseña del panel";
    RESET_BODY = "Uma nova senha foi pedida para este endereço. Abra este link e escolha a senha. Ele vale por 30 minutos e só uma vez:\n{}\n\nSe não foi você, ignore este e-mail: a senha continua a mesma.", "A new password was requested for this address. Open this link and choose the password. It is valid for 30 minutes and only once:\n{}\n\nIf it was not you, ignore this e-mail: the password stays the same.", "Se pidió una nueva contraseña para esta dirección. Abra este enlace y elija la contraseña. Vale 30 minutos y una sola vez:\n{}\n\nSi no fue usted, ignore este correo: la contraseña sigue igual.";
    CHANGED_SUBJECT = "A sua senha foi trocada", "Your password was changed", "Su contraseña fue cambiada";
    CHANGED_BODY = "A senha do seu usuário do painel foi trocada em {} (UTC-3), e todas as sessões terminaram.\n\nSe não foi você, escolha já outra senha e avise um dono da conta:\n{}", "The password of your user of the dashboard was changed at {} (UTC-3), and all sessions have ended.\n\nIf it was not you, choose another password now, and inform an owner of the account:\n{}", "La contraseña de su usuario del panel fue cambiada el {} (UTC-3), y todas las sesiones terminaron.\n\nSi no fue usted, elija ya otra contraseña y avise a un dueño de la cuenta:\n{}";
    SIGNATURE = "Aviso automático {}. Não responda a este e-mail.", "Automatic e-mail {}. Do not reply to it.", "Aviso automático {}. No responda a este correo.";
}

/// Writes the texts of one email.
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

    pub(crate) fn password_changed(&self, at: Timestamp) -> Text {
        let link = format!("{}/reset", self.dashboard);
        self.text((CHANGED_SUBJECT, &[]), (CHANGED_BODY, &[&pt_br::format_short_minute(at), &link]))
    }

    fn text(&self, subject: (Word, &[&str]), body: (Word, &[&str])) -> Text {
        let fill = |(word, values): (Word, &[&str])| self.language.fill(word, values);
        let signature = fill((SIGNATURE, &[&self.id.to_string()]));
        Text { subject: fill(subject), body: format!("{}\n\n{signature}\n", fill(body)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_email_has_its_link_in_each_language() {
        let at: Timestamp = "2026-11-21T18:04:05.678Z".parse().unwrap();
        let (id, token) = (EmailId::derive(at, "row", 1, "kind"), LinkToken::random().unwrap());
        for language in Language::ALL {
            let writer = Writer { id, language, dashboard: "https://pay.example.com/dashboard" };
            let invited = writer.invited("Loja\nExemplo 529.982.247-25", &token);
            assert!(invited.subject.ends_with("Loja Exemplo ***"), "{invited:?}");
            let link = |path: &str| format!("\nhttps://pay.example.com/dashboard/{path}\n");
            assert!(invited.body.contains(&link(&format!("invite/{}", token.as_str()))), "{invited:?}");
            let reset = writer.reset(&token);
            assert!(reset.body.contains(&link(&format!("reset/{}", token.as_str()))), "{reset:?}");
            let changed = writer.password_changed(at);
            assert!(changed.body.contains(&link("reset")) && changed.body.contains("21/11/2026 15:04"));
            for text in [invited, reset, changed] {
                assert!(!text.body.contains("{}") && text.body.contains(&id.to_string()), "{text:?}");
            }
        }
    }
}
