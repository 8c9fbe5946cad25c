//! Why deliveries fail, in the languages of the pages and e-mails.

use domain::pt_br::format_short_minute;
use domain::webhook::failure::{AttemptFailure, ConnectionFailure};
use shared::language::Language;

use super::delivery::{Cause, Delivery};
use super::endpoint::Disabled;

shared::translate! {
    fn cause(Cause) {
        Cause::Deleted = "O endpoint foi excluído.", "The endpoint was deleted.", "El endpoint fue eliminado.";
        Cause::Deactivated = "O endpoint foi pausado.", "The endpoint was paused.", "El endpoint fue pausado.";
        Cause::EventExpired = "O evento expirou, e o corpo não existe mais.", "The event has expired, and its body no longer exists.", "El evento venció y su cuerpo ya no existe.";
        Cause::NoAddress = "O evento não tem endereço próprio.", "The event has no address of its own.", "El evento no tiene dirección propia.";
    }
}

shared::translate! {
    /// Why the service switched an endpoint off.
    pub fn disabled_reason(language, &Disabled) {
        Disabled { since, last, .. } = "nenhuma tentativa iniciada desde {} teve sucesso. A última: {}", "no attempt that began since {} succeeded. The last one: {}", "ningún intento iniciado desde {} tuvo éxito. El último: {}", format_short_minute(*since), attempt_failure(language, last);
    }
    /// Why an attempt failed.
    pub fn attempt_failure(language, &AttemptFailure) {
        AttemptFailure::Answered(status) = "O servidor respondeu com o status HTTP {}.", "The server answered with the HTTP status {}.", "El servidor respondió con el estado HTTP {}.", status.to_string();
        AttemptFailure::Redirected(status) = "O servidor redirecionou (status {}). Redirecionamentos não são seguidos: registre a URL final.", "The server redirected (status {}). Redirects are not followed: register the final URL.", "El servidor redirigió (estado {}). Las redirecciones no se siguen: registre la URL final.", status.to_string();
        AttemptFailure::Url(_) | AttemptFailure::Address(_) = "A URL ou o endereço do servidor não é permitido.", "The URL or the server's address is not permitted.", "La URL o la dirección del servidor no está permitida.";
        AttemptFailure::Connection(ConnectionFailure::NameNotFound) = "O nome do servidor não existe no DNS.", "The server's name does not exist in the DNS.", "El nombre del servidor no existe en el DNS.";
        AttemptFailure::Connection(ConnectionFailure::Refused) = "A conexão foi recusada: nada escuta nesse endereço.", "The connection was refused: nothing listens at that address.", "La conexión fue rechazada: nada escucha en esa dirección.";
        AttemptFailure::Connection(ConnectionFailure::Timeout) | AttemptFailure::Timeout(_) = "O servidor não respondeu a tempo. Responda 2xx antes de processar o evento.", "The server did not answer in time. Answer 2xx before you process the event.", "El servidor no respondió a tiempo. Responda 2xx antes de procesar el evento.";
        AttemptFailure::Connection(ConnectionFailure::Unreachable | ConnectionFailure::Other) = "O servidor não foi alcançado.", "The server was not reached.", "No se alcanzó el servidor.";
        AttemptFailure::Connection(ConnectionFailure::Certificate(_) | ConnectionFailure::Tls) = "O certificado TLS do servidor não é válido.", "The server's TLS certificate is not valid.", "El certificado TLS del servidor no es válido.";
        AttemptFailure::Connection(ConnectionFailure::Closed) = "O servidor fechou a conexão antes de responder.", "The server closed the connection before it answered.", "El servidor cerró la conexión antes de responder.";
        AttemptFailure::Connection(ConnectionFailure::HeadTooLarge | ConnectionFailure::NotHttp) = "A resposta do servidor não é HTTP/1.1 válido.", "The server's answer is not valid HTTP/1.1.", "La respuesta del servidor no es HTTP/1.1 válido.";
        AttemptFailure::CutShort = "A tentativa foi interrompida do nosso lado. O servidor pode ter recebido o evento.", "The attempt was interrupted on our side. The server may have received the event.", "El intento fue interrumpido de nuestro lado. El servidor puede haber recibido el evento.";
        AttemptFailure::Unreadable = "O evento não pôde ser lido.", "The event can't be read.", "El evento no pudo leerse.";
    }
}

impl Delivery {
    /// As [`Self::error`], in a language.
    pub fn error_in(&self, language: Language) -> Option<String> {
        let cause = self.cancelled_because.map(|why| language.say(cause(why)).to_owned());
        let failure = self.last_error.as_ref().map(|failure| attempt_failure(language, failure));
        let texts: Vec<String> = cause.into_iter().chain(failure).collect();
        (!texts.is_empty()).then(|| texts.join(" "))
    }

    /// The error, or the answer of a receiver that got the event.
    pub fn answer_in(&self, language: Language) -> Option<String> {
        let answered = |status| attempt_failure(language, &AttemptFailure::Answered(status));
        self.error_in(language).or_else(|| self.last_status_code.map(answered))
    }
}
