//! What a form did, in words: the notice on the page to which it leads. The URL of that page names the action.

use axum::http::header::{HeaderValue, LOCATION};
use axum::response::Response;

/// The end of a URL whose page says that a form was done, without the name of the action.
pub(crate) const DONE: &str = "?done=1";

crate::translate! {
    /// The words of the notice, by the value of `done`.
    pub fn done_words(&str) {
        "charges" = "A cobrança foi criada.", "The charge was created.", "El cobro fue creado.";
        "charges-cancel" = "A cobrança foi cancelada.", "The charge was cancelled.", "El cobro fue cancelado.";
        "charges-refund" = "O pedido foi feito: o dinheiro volta a quem pagou.", "The refund was requested: the money goes back to the payer.", "El pedido fue hecho: el dinero vuelve a quien pagó.";
        "charges-simulate" = "A simulação foi feita.", "The simulation was done.", "La simulación fue hecha.";
        "deliveries-resend" = "O evento foi enviado de novo.", "The event was sent again.", "El evento fue enviado de nuevo.";
        "developers-keys-revoke" = "A chave foi revogada.", "The key was revoked.", "La clave fue revocada.";
        "disputes-accept" = "A perda da disputa foi aceita.", "The loss of the dispute was accepted.", "La pérdida de la disputa fue aceptada.";
        "disputes-appeal" = "A contestação foi enviada.", "The appeal was sent.", "La apelación fue enviada.";
        "disputes-evidence-remove" = "O arquivo foi removido.", "The file was removed.", "El archivo fue quitado.";
        "disputes-draft" = "O rascunho foi salvo.", "The draft was saved.", "El borrador fue guardado.";
        "links" = "O link foi criado.", "The link was made.", "El enlace fue creado.";
        "links-active" | "links-change" = "O link foi alterado.", "The link was changed.", "El enlace fue cambiado.";
        "mode" = "O que estava aberto só existe no outro modo. Esta é a lista deste modo.", "What was open exists only in the other mode. This is the list of this mode.", "Lo que estaba abierto solo existe en el otro modo. Esta es la lista de este modo.";
        "reports" = "O relatório foi pedido.", "The report was asked for.", "El informe fue pedido.";
        "reports-delete" = "O relatório foi removido.", "The report was removed.", "El informe fue quitado.";
        "reports-schedules" = "O relatório automático foi agendado.", "The automatic report was scheduled.", "El informe automático fue programado.";
        "reports-schedules-delete" = "O relatório automático foi parado.", "The automatic report was stopped.", "El informe automático fue detenido.";
        "security-demand" = "A exigência foi alterada para todos os membros.", "The demand was changed for all members.", "La exigencia fue cambiada para todos los miembros.";
        "security-password" = "A senha foi trocada.", "The password was changed.", "La contraseña fue cambiada.";
        "security-sessions" = "As sessões foram encerradas.", "The sessions were ended.", "Las sesiones fueron cerradas.";
        "security-sessions-end" = "A sessão foi encerrada.", "The session was ended.", "La sesión fue cerrada.";
        "security-totp-off" = "A verificação em duas etapas foi desativada.", "The second factor was turned off.", "La verificación en dos pasos fue desactivada.";
        "settings" = "A marca da loja foi salva.", "The brand of the shop was saved.", "La marca de la tienda fue guardada.";
        "settings-logo" = "O logo foi salvo.", "The logo was saved.", "El logo fue guardado.";
        "settings-logo-remove" = "O logo foi removido.", "The logo was removed.", "El logo fue quitado.";
        "settings-sales-emails" = "A escolha dos e-mails de vendas foi salva.", "The choice of the e-mails about sales was saved.", "La elección de los correos de ventas fue guardada.";
        "team-invites" = "O convite foi enviado.", "The invitation was sent.", "La invitación fue enviada.";
        "team-invites-withdraw" = "O convite foi retirado.", "The invitation was withdrawn.", "La invitación fue retirada.";
        "team-remove" = "O membro foi removido.", "The member was removed.", "El miembro fue quitado.";
        "team-role" = "A função do membro foi alterada.", "The member's role was changed.", "El rol del miembro fue cambiado.";
        "wallet-key" = "A chave foi registrada. O suporte confere o titular, e ela funciona depois de 48 horas.", "The key was registered. Your operator checks its holder, and it works after 48 hours.", "La clave fue registrada. Su operador revisa el titular, y funciona después de 48 horas.";
        "wallet-payout" = "O repasse foi pedido.", "The payout was requested.", "El retiro fue pedido.";
        "webhooks-change" = "O endpoint foi alterado.", "The endpoint was changed.", "El endpoint fue cambiado.";
        "webhooks-delete" = "O endpoint foi excluído.", "The endpoint was deleted.", "El endpoint fue eliminado.";
        "webhooks-recover" = "A recuperação começou.", "The recovery has begun.", "La recuperación comenzó.";
        "webhooks-status" = "A situação do endpoint foi alterada.", "The state of the endpoint was changed.", "El estado del endpoint fue cambiado.";
        "webhooks-test" = "O teste foi enviado.", "The test was sent.", "La prueba fue enviada.";
        _ = "Feito.", "Done.", "Hecho.";
    }
}

/// The name of the action of a form's path: its segments without the ids, which have a digit or `_`. So
/// `/dashboard/charges/ch_1/refund` is `charges-refund`.
pub(crate) fn name_of(path: &str) -> String {
    let is_id = |part: &&str| part.contains(|c: char| c.is_ascii_digit() || c == '_');
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != "dashboard");
    parts.filter(|part| !is_id(part)).collect::<Vec<_>>().join("-")
}

/// Names the action of the form with this path where the answer leads, unless the action has no words.
pub(crate) fn name_done(response: &mut Response, path: &str) {
    let name = name_of(path);
    let location = response.headers().get(LOCATION).and_then(|location| location.to_str().ok());
    let Some(page) = location.and_then(|location| location.strip_suffix(DONE)) else { return };
    if done_words(&name).pt == done_words("").pt {
        return;
    }
    if let Ok(location) = HeaderValue::try_from(format!("{page}?done={name}")) {
        response.headers_mut().insert(LOCATION, location);
    }
}

#[cfg(test)]
mod tests {
    use axum::response::{IntoResponse, Redirect};

    use super::*;

    #[test]
    fn the_page_to_which_a_form_leads_names_what_was_done() {
        let led = |to: &str, path: &str| {
            let mut response = Redirect::to(to).into_response();
            name_done(&mut response, path);
            response.headers()[LOCATION].to_str().unwrap().to_owned()
        };
        let charge = "/dashboard/charges/ch_1";
        assert_eq!(
            led(&format!("{charge}?done=1"), &format!("{charge}/refund")),
            format!("{charge}?done=charges-refund")
        );
        let hash = "/dashboard/team/invites/0a1b/withdraw";
        assert_eq!(led("/dashboard/team?done=1", hash), "/dashboard/team?done=team-invites-withdraw");
        for (to, path) in [
            (&*format!("{charge}?error=x"), &*format!("{charge}/refund")),
            ("/dashboard/login?done=1", "/dashboard/reset/secret"),
        ] {
            assert_eq!(led(to, path), to);
        }
        assert_eq!(
            done_words("charges-refund").en,
            "The refund was requested: the money goes back to the payer."
        );
        assert_eq!(done_words("<b>").pt, "Feito.");
    }
}
