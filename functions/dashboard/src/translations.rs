//! The words of facts: reasons of failures, steps of a charge's timeline, actions and details of the audit.

use domain::audit::{Action, AddedEvidence, AuditedKey, Changed, Sum};
use domain::charge::{Charge, FailureReason, TransactionStatus, UnappliedReason};
use domain::ids::Mode;
use domain::med::Decision;
use domain::payment_method::PaymentMethod;
use domain::pt_br::format_short_minute;
use domain::refund::{RefundFailure, RefundReason, RefundStatus};
use domain::wallet::RefundStrategy;
use domain::webhook::EndpointStatus;
use domain::webhook::event_type::EventType;
use pages::{Language, Tone, Word, field_word, money, without_documents};
use serde_json::Value;
use services::{CaseEvent, ChargeTimeline, TimelineEntry, TimelineFact};

use crate::account::short;
use crate::disputes::outcome_name;
use crate::money::movement_of;
use crate::states::{BackWords, State, of_charge};
use crate::words as w;

pages::words! { ,
    ACCEPTED = "Aceito", "Accepted", "Aceptado";
    OPENED = "Aberta", "Opened", "Abierta";
    UNCONFIRMED = "Aberta, a confirmar", "Opened, not confirmed yet", "Abierta, por confirmar";
    OTHER_PATH = "outro caminho ou consulta em {}", "another path or query at {}", "otra ruta o consulta en {}";
    REPLACED = "trocado", "replaced", "cambiado";
    NOTHING = "nada mudou", "nothing different", "nada cambió";
    EVENTS_ADDED = "eventos acrescentados", "events added", "eventos agregados";
    EVENTS_REMOVED = "eventos retirados", "events removed", "eventos quitados";
    YES = "sim", "yes", "sí";
    NO = "não", "no", "no";
    EVIDENCE_REQUESTED = "Provas pedidas", "Evidence requested", "Pruebas solicitadas";
    SAYS_CREATED = "Cobrança de {} criada", "Charge of {} created", "Cobro de {} creado";
    SAYS_PAID = "A cobrança foi paga", "The charge was paid", "El cobro fue pagado";
    SAYS_DECLINED = "O pagamento foi recusado", "The payment was declined", "El pago fue rechazado";
    SAYS_EXPIRED = "A cobrança venceu sem pagamento", "The charge expired unpaid", "El cobro venció sin pago";
    SAYS_CANCELLED = "A cobrança foi cancelada", "The charge was cancelled", "El cobro fue cancelado";
    UNAPPLIED = "Não creditado aqui", "Not credited here", "No acreditado aquí";
    UNAPPLIED_MEANS = "Aguarda o operador, que decide a quem pertence", "It waits for the operator, who decides whose it is", "Espera al operador, que decide de quién es";
    CREDITED_TO = "Creditado à cobrança {}", "Credited to charge {}", "Acreditado al cobro {}";
    SAYS_HELD = "Um pagamento de {} chegou e está em análise", "A payment of {} arrived and is in review", "Un pago de {} llegó y está en revisión";
    SAYS_PAYS = "{} pagou {} por {}", "{} paid {} by {}", "{} pagó {} por {}";
    SAYS_RECEIVED = "Pagamento de {} recebido: {}", "Payment of {} received: {}", "Pago de {} recibido: {}";
    SAYS_NOT_CREDITED = "Um pagamento de {} chegou e não foi creditado", "A payment of {} arrived and was not credited", "Un pago de {} llegó y no fue acreditado";
    SAYS_REFUND = "Devolução de {} pedida", "Refund of {} requested", "Devolución de {} pedida";
    SAYS_REVERSAL = "Estorno de {} pedido", "Refund of {} requested", "Reembolso de {} pedido";
    SAYS_REFUNDED = "{} devolvidos a quem pagou", "{} refunded to the payer", "{} devueltos a quien pagó";
    SAYS_REVERSED = "{} estornados a quem pagou", "{} refunded to the payer", "{} reembolsados a quien pagó";
    SAYS_REFUND_FAILED = "A devolução de {} falhou", "The refund of {} failed", "La devolución de {} falló";
    SAYS_REVERSAL_FAILED = "O estorno de {} falhou", "The refund of {} failed", "El reembolso de {} falló";
    SAYS_DISPUTED = "Disputa de {} aberta", "Dispute of {} opened", "Disputa de {} abierta";
    SAYS_EVIDENCE = "O banco pediu provas da venda", "The bank asked for evidence of the sale", "El banco pidió pruebas de la venta";
    SAYS_APPEALED = "A loja contestou a disputa", "The shop appealed the dispute", "La tienda apeló la disputa";
    SAYS_DISPUTE_OVER = "A disputa terminou", "The dispute ended", "La disputa terminó";
}

pages::translate! {
    /// What an audit row says was done.
    pub(crate) fn action(&Action) {
        Action::OpenAccount { .. } = "Conta aberta", "Account opened", "Cuenta abierta";
        Action::RequireSecondFactor(_) = "Exigência da verificação em duas etapas", "Demand of the second factor", "Exigencia de la verificación en dos pasos";
        Action::ResumeAccount(_) = "Conta reativada", "Account resumed", "Cuenta reactivada";
        Action::SetBrand(_) = "Marca alterada", "Brand changed", "Marca cambiada";
        Action::SuspendAccount(_) = "Conta suspensa", "Account suspended", "Cuenta suspendida";
        Action::IssueKey(_) = "Chave emitida", "Key issued", "Clave emitida";
        Action::RevokeKey(_) = "Chave revogada", "Key revoked", "Clave revocada";
        Action::RotateKey { .. } = "Chave trocada", "Key rotated", "Clave rotada";
        Action::CancelCharge { .. } = "Cobrança cancelada", "Charge cancelled", "Cobro cancelado";
        Action::ExpireCharge = "Cobrança encerrada pelo suporte", "Charge ended by the operator", "Cobro cerrado por el operador";
        Action::RevealDocument(_) = "Documento do pagador mostrado", "Payer's document shown", "Documento del pagador mostrado";
        Action::EraseCustomer = "Dados do cliente apagados", "Customer's data erased", "Datos del cliente borrados";
        Action::RedriveDeliveries { .. } = "Entregas recuperadas", "Deliveries recovered", "Entregas recuperadas";
        Action::ReplayEvents = "Eventos reprocessados", "Events replayed", "Eventos reprocesados";
        Action::AdjustLedger(_) = "Ajuste do saldo", "Adjustment of the balance", "Ajuste del saldo";
        Action::ResumeLiveCharges = "Cobranças em produção retomadas", "Live charges resumed", "Cobros en producción reanudados";
        Action::StopLiveCharges = "Cobranças em produção paradas", "Live charges stopped", "Cobros en producción detenidos";
        Action::AcceptCase { .. } = "Perda da disputa aceita", "Loss of the dispute accepted", "Pérdida de la disputa aceptada";
        Action::AddEvidence(_) = "Prova anexada", "Evidence attached", "Prueba adjuntada";
        Action::RemoveEvidence { .. } = "Prova removida", "Evidence removed", "Prueba quitada";
        Action::AppealCase(_) = "Disputa contestada", "Dispute appealed", "Disputa apelada";
        Action::ConfirmCase(_) = "Disputa confirmada", "Dispute confirmed", "Disputa confirmada";
        Action::DecideCase(_) = "Disputa decidida", "Dispute decided", "Disputa decidida";
        Action::DismissNotice(_) = "Aviso de disputa descartado", "Notice of a dispute dismissed", "Aviso de disputa descartado";
        Action::ForwardEvidence { .. } = "Provas enviadas ao banco", "Evidence sent to the bank", "Pruebas enviadas al banco";
        Action::RequestEvidence = "Provas pedidas", "Evidence requested", "Pruebas solicitadas";
        Action::RetryNotice(_) = "Aviso de disputa reprocessado", "Notice of a dispute processed again", "Aviso de disputa reprocesado";
        Action::ResolveNotification { .. } = "Notificação do banco resolvida", "Notification of the bank resolved", "Notificación del banco resuelta";
        Action::RotateOverrideSecret(_) = "Segredo de webhookUrl trocado", "Secret for webhookUrl rotated", "Secreto de webhookUrl rotado";
        Action::ChangePaymentLink(_) = "Link de pagamento alterado", "Payment link changed", "Enlace de pago modificado";
        Action::CreatePaymentLink(_) = "Link de pagamento criado", "Payment link created", "Enlace de pago creado";
        Action::CreatePayout(_) = "Repasse criado", "Payout created", "Retiro creado";
        Action::FailPayout(_) = "Repasse que falhou", "Payout failed", "Retiro fallido";
        Action::SettlePayout(_) = "Repasse transferido", "Payout transferred", "Retiro transferido";
        Action::ApprovePayoutKey(_) = "Chave Pix para repasses aprovada", "Pix key for payouts approved", "Clave Pix para retiros aprobada";
        Action::RegisterPayoutKey(_) = "Chave Pix para repasses registrada", "Pix key for payouts registered", "Clave Pix para retiros registrada";
        Action::RejectPayoutKey(_) = "Chave Pix para repasses recusada", "Pix key for payouts rejected", "Clave Pix para retiros rechazada";
        Action::ApplyReceipt(_) = "Pagamento atribuído a uma cobrança", "Payment applied to a charge", "Pago aplicado a un cobro";
        Action::CreditReceipt = "Valor deixado com a loja", "Receipt left to the shop", "Importe dejado a la tienda";
        Action::RecordReceipt = "Pagamento registrado", "Payment recorded", "Pago registrado";
        Action::ReturnReceipt = "Pagamento devolvido ao pagador", "Payment returned to the payer", "Pago devuelto al pagador";
        Action::RecordRefundAtBank = "Devolução encontrada no banco", "Refund found at the bank", "Devolución encontrada en el banco";
        Action::CreateRefund { strategy: Some(_), .. } = "Devolução pedida", "Refund requested", "Devolución pedida";
        Action::CreateRefund { strategy: None, .. } = "Estorno pedido", "Refund requested", "Reembolso pedido";
        Action::FailRefund = "Devolução ou estorno encerrado pelo suporte", "Refund ended by the operator", "Devolución cerrada por el operador";
        Action::BookAgain(_) = "Movimentação registrada de novo após restauração", "Movement recorded again after a restore", "Movimiento registrado de nuevo tras una restauración";
        Action::CopyRow { .. } = "Registro restaurado de uma cópia", "Record restored from a copy", "Registro restaurado de una copia";
        Action::ApproveReview(_) = "Pagamento em análise aprovado", "Payment in review approved", "Pago en revisión aprobado";
        Action::ReturnReview(_) = "Pagamento em análise devolvido", "Payment in review returned", "Pago en revisión devuelto";
        Action::AddUser { .. } = "Membro adicionado", "Member added", "Miembro agregado";
        Action::ConfirmSession = "Sessão confirmada", "Session confirmed", "Sesión confirmada";
        Action::EndSessions { .. } = "Sessões encerradas", "Sessions ended", "Sesiones cerradas";
        Action::InviteUser { .. } = "Membro convidado", "Member invited", "Miembro invitado";
        Action::LockOut = "Login bloqueado", "Log-in blocked", "Inicio de sesión bloqueado";
        Action::LogIn = "Login", "Log-in", "Inicio de sesión";
        Action::LogOut = "Logout", "Log-out", "Cierre de sesión";
        Action::RemoveUser { .. } = "Membro removido", "Member removed", "Miembro quitado";
        Action::ResetPassword { .. } = "Senha trocada", "Password changed", "Contraseña cambiada";
        Action::SecondFactorOff { .. } = "Verificação em duas etapas desativada", "Second factor turned off", "Verificación en dos pasos desactivada";
        Action::SecondFactorOn = "Verificação em duas etapas ativada", "Second factor turned on", "Verificación en dos pasos activada";
        Action::SetRole { .. } = "Função alterada", "Role changed", "Rol cambiado";
        Action::WithdrawInvite { .. } = "Convite retirado", "Invite withdrawn", "Invitación retirada";
        Action::ChangeEndpoint { .. } = "Endpoint alterado", "Endpoint changed", "Endpoint cambiado";
        Action::DeleteEndpoint { .. } = "Endpoint excluído", "Endpoint deleted", "Endpoint eliminado";
        Action::DisableEndpoint(_) = "Endpoint desligado pelo serviço", "Endpoint switched off by the service", "Endpoint desactivado por el servicio";
        Action::RegisterEndpoint { .. } = "Endpoint registrado", "Endpoint registered", "Endpoint registrado";
        Action::RotateEndpointSecret { .. } = "Segredo do endpoint trocado", "Secret of the endpoint rotated", "Secreto del endpoint rotado";
        Action::CheckAcquirer(_) | Action::DropOldCallbackTokens(_) | Action::ForgetAcquirer(_)
        | Action::RemoveAcquirer(_) | Action::RotateCallbackToken(_) | Action::RotateMedSecret(_)
        | Action::SetAcquirer(_) | Action::SetBoletoDue(_) | Action::SetChargeExpiry(_) | Action::SetContact(_)
        | Action::SetDocument(_) | Action::SetFees(_)
        | Action::SetFeesOnRefund(_) | Action::SetHold(_) | Action::SetMail(_) | Action::SetPixOutFee(_)
        | Action::SetRateLimit(_) | Action::SetRefundOverdraft(_) | Action::SetRefundsToPayerOnly(_)
        | Action::SetShards(_) | Action::SetShardsRead(_) | Action::SetThirdPartyRefundLimit(_)
        | Action::SetVelocity(_) = "Configuração da conta alterada pelo suporte", "Setting of the account changed by the operator", "Configuración de la cuenta cambiada por el operador";
    }
    fn decision(Decision) {
        Decision::Merchant = "a favor da loja", "for the shop", "a favor de la tienda";
        Decision::Payer = "a favor do pagador", "for the payer", "a favor del pagador";
        Decision::Withdrawn = "retirada pelo pagador", "withdrawn by the payer", "retirada por el pagador";
        Decision::ClosedWithoutRefund = "encerrada sem devolução à loja", "closed without the money for the shop", "cerrada sin devolución a la tienda";
    }
    fn mode(Mode) {
        Mode::Test = "teste", "test", "prueba";
        Mode::Live = "produção", "live", "producción";
    }
    fn strategy(RefundStrategy) {
        RefundStrategy::Devolution = "Por devolução do Pix recebido", "By a return of the Pix", "Por devolución del Pix recibido";
        RefundStrategy::Cashout = "Por um novo Pix", "By a new Pix", "Por un nuevo Pix";
    }
    /// Why a payment was not credited.
    fn unapplied(UnappliedReason) {
        UnappliedReason::WrongAmount = "O valor pago difere do valor da cobrança.", "The paid amount differs from the charge's.", "El importe pagado difiere del importe del cobro.";
        UnappliedReason::Late = "Pago depois do fim da cobrança.", "Paid after the charge had ended.", "Pagado después del fin del cobro.";
        UnappliedReason::SecondPayment = "A cobrança já estava paga.", "The charge was paid already.", "El cobro ya estaba pagado.";
        UnappliedReason::PayerMismatch = "Outro CPF ou CNPJ pagou.", "Another CPF or CNPJ paid.", "Pagó otro CPF o CNPJ.";
        UnappliedReason::ReviewReturned = "A análise decidiu devolver.", "The review decided to return it.", "La revisión decidió devolverlo.";
        UnappliedReason::Cancelled = "A cobrança foi cancelada durante a análise.", "The charge was cancelled during the review.", "El cobro fue cancelado durante la revisión.";
        UnappliedReason::Unmatched | UnappliedReason::RefundFailed = "O pagamento não pertence a uma cobrança.", "The payment belongs to no charge.", "El pago no pertenece a un cobro.";
    }
}

pages::translate! {
    /// Why a payer disputes a payment: a card network's reason as Stripe names it, or the payer's words.
    pub(crate) fn case_reason(language, &str) {
        "bank_cannot_process" = "O banco não consegue processar", "The bank can't process it", "El banco no puede procesarlo";
        "check_returned" = "Cheque devolvido", "Check returned", "Cheque devuelto";
        "credit_not_processed" = "Crédito ou estorno não recebido", "Credit not processed", "Crédito o reembolso no recibido";
        "customer_initiated" = "Pedido pelo cliente", "Initiated by the customer", "Iniciado por el cliente";
        "debit_not_authorized" = "Débito não autorizado", "Debit not authorised", "Débito no autorizado";
        "duplicate" = "Cobrança em dobro", "Duplicate charge", "Cobro duplicado";
        "fraudulent" = "O titular não reconhece a compra", "The holder does not recognise the purchase", "El titular no reconoce la compra";
        "general" = "Sem motivo específico", "No specific reason", "Sin motivo específico";
        "incorrect_account_details" = "Dados da conta errados", "Wrong account details", "Datos de cuenta incorrectos";
        "insufficient_funds" = "Saldo insuficiente", "Insufficient funds", "Fondos insuficientes";
        "noncompliant" = "Fora das regras da bandeira", "Against the network's rules", "Fuera de las reglas de la red";
        "product_not_received" = "Produto ou serviço não recebido", "Product or service not received", "Producto o servicio no recibido";
        "product_unacceptable" = "Produto com defeito ou diferente do anunciado", "Product defective or not as described", "Producto defectuoso o distinto del anunciado";
        "subscription_canceled" = "Assinatura cancelada", "Subscription cancelled", "Suscripción cancelada";
        "unrecognized" = "Compra não reconhecida", "Purchase not recognised", "Compra no reconocida";
        words = "{}", "{}", "{}", without_documents(words);
    }
}

pages::translate! {
    /// Why a charge was not paid. The words of others stay.
    pub(crate) fn failure_reason(language, &FailureReason) {
        FailureReason::Cancelled = "A loja cancelou a cobrança.", "The shop cancelled the charge.", "La tienda canceló el cobro.";
        FailureReason::Expired = "A cobrança não foi paga antes de vencer.", "The charge was not paid before it expired.", "El cobro no se pagó antes de vencer.";
        FailureReason::AcquirerUnavailable = "O banco ou a operadora de cartões não respondeu a tempo.", "The bank or card acquirer did not answer in time.", "El banco o el procesador de tarjetas no respondió a tiempo.";
        FailureReason::AcquirerRefused = "A operadora de cartões recusou a cobrança.", "The card acquirer refused the charge.", "El procesador de tarjetas rechazó el cobro.";
        FailureReason::CancelledAtAcquirer = "O pagamento foi cancelado na operadora de cartões.", "The payment was cancelled at the card acquirer.", "El pago fue cancelado en el procesador de tarjetas.";
        FailureReason::RemovedByBank { .. } = "O banco retirou a cobrança.", "The bank removed the charge.", "El banco retiró el cobro.";
        FailureReason::RefusedByBank { .. } = "O banco recusou a cobrança.", "The bank refused the charge.", "El banco rechazó el cobro.";
        FailureReason::SandboxRefused | FailureReason::SandboxDeclined { .. } = "Recusado no ambiente de testes.", "Declined in the sandbox.", "Rechazado en el entorno de pruebas.";
        FailureReason::DeclinedInSimulation = "Recusado em uma simulação.", "Declined in a simulation.", "Rechazado en una simulación.";
        FailureReason::NotAuthenticatedByHolder = "O titular não autenticou o pagamento.", "The holder did not authenticate the payment.", "El titular no autenticó el pago.";
        FailureReason::AuthenticationFailed = "O pagador não foi autenticado.", "The payer was not authenticated.", "El pagador no fue autenticado.";
        FailureReason::DeclinedByPayer = "O pagador recusou o pagamento.", "The payer declined the payment.", "El pagador rechazó el pago.";
        FailureReason::AmountTooSmall = "O valor é baixo demais para um pagamento com cartão.", "The amount is too small for a payment by card.", "El importe es demasiado bajo para un pago con tarjeta.";
        FailureReason::AmountTooLarge = "O valor é alto demais para um pagamento com cartão.", "The amount is too large for a payment by card.", "El importe es demasiado alto para un pago con tarjeta.";
        FailureReason::CardDeclined = "O emissor do cartão recusou o pagamento.", "The card's issuer declined the payment.", "El emisor de la tarjeta rechazó el pago.";
        FailureReason::InsufficientFunds = "O cartão não tem saldo ou limite.", "The card has insufficient funds.", "La tarjeta no tiene fondos suficientes.";
        FailureReason::InsufficientBalance = "O pagador não tem saldo ou limite.", "The payer has insufficient funds.", "El pagador no tiene fondos suficientes.";
        FailureReason::ExpiredCard = "O cartão venceu, ou a validade está errada.", "The card has expired, or its date is wrong.", "La tarjeta venció, o su fecha es incorrecta.";
        FailureReason::IncorrectCvc = "O código de segurança do cartão está errado.", "The card's security code is wrong.", "El código de seguridad de la tarjeta es incorrecto.";
        FailureReason::IncorrectNumber = "O número do cartão está errado.", "The card's number is wrong.", "El número de la tarjeta es incorrecto.";
        FailureReason::CardNotSupported = "O cartão não permite este pagamento.", "The card does not allow this payment.", "La tarjeta no permite este pago.";
        FailureReason::ProcessingError = "O pagamento não pôde ser processado.", "The payment could not be processed.", "El pago no pudo procesarse.";
        FailureReason::InWords { text, .. } = "{}", "{}", "{}", without_documents(text);
    }
    pub(crate) fn refund_failure(language, &RefundFailure) {
        RefundFailure::LostByBank = "O banco não conhece mais o pagamento.", "The bank does not know the payment any more.", "El banco ya no conoce el pago.";
        RefundFailure::NotAcceptedIn90Days = "O banco não aceitou a devolução em 90 dias.", "The bank did not accept the refund within 90 days.", "El banco no aceptó la devolución en 90 días.";
        RefundFailure::UsedUp = "Outras devoluções deixaram do pagamento menos do que esta precisa.", "Other returns left too little of the payment for the refund.", "Otras devoluciones dejaron demasiado poco del pago.";
        RefundFailure::NoPixKey = "A devolução não tem chave Pix.", "The refund has no Pix key.", "La devolución no tiene clave Pix.";
        RefundFailure::RefusedByBank = "O banco recusou sem dizer o motivo.", "The bank refused the request without a reason.", "El banco rechazó sin decir el motivo.";
        RefundFailure::CardNotValid = "O cartão não é mais válido: o estorno não chegou ao pagador.", "The card is not valid any more, so the refund did not reach the payer.", "La tarjeta ya no es válida: la devolución no llegó al pagador.";
        RefundFailure::IssuerDeclined = "O emissor do cartão recusou o estorno.", "The card's issuer declined the refund.", "El emisor de la tarjeta rechazó la devolución.";
        RefundFailure::BalanceTooLow = "O saldo na operadora de cartões não cobre o estorno.", "The balance at the card acquirer is too low for the refund.", "El saldo en el procesador de tarjetas no cubre la devolución.";
        RefundFailure::DisputedBefore = "O pagador contestou o pagamento antes do estorno.", "The payer disputed the payment before the refund.", "El pagador disputó el pago antes de la devolución.";
        RefundFailure::Disputed = "O pagamento está em disputa e não pode ser estornado.", "The payment is disputed, so it can't be refunded.", "El pago está en disputa y no puede devolverse.";
        RefundFailure::CancelledAtAcquirer = "O estorno foi cancelado na operadora de cartões.", "The refund was cancelled at the card acquirer.", "La devolución fue cancelada en el procesador de tarjetas.";
        RefundFailure::NotExecuted = "A operadora de cartões não conseguiu fazer o estorno.", "The card acquirer could not execute the refund.", "El procesador de tarjetas no pudo hacer la devolución.";
        RefundFailure::NotRequestable = "O estorno não pôde ser pedido.", "The refund can't be requested.", "La devolución no pudo pedirse.";
        RefundFailure::AlreadyRefunded = "O pagamento já tinha sido estornado por inteiro.", "The payment was already refunded in full.", "El pago ya se había devuelto por completo.";
        RefundFailure::RefusedByAcquirer = "A operadora de cartões recusou o estorno.", "The card acquirer refused the refund.", "El procesador de tarjetas rechazó la devolución.";
        RefundFailure::InWords(text) = "{}", "{}", "{}", without_documents(text);
    }
    pub(crate) fn refund_reason(language, &RefundReason) {
        RefundReason::Merchant(text) = "{}", "{}", "{}", without_documents(text);
        RefundReason::RequestedAtBank = "Pedida no banco.", "Requested at the bank.", "Pedida en el banco.";
        RefundReason::RequestedAtAcquirer = "Pedido na operadora de cartões.", "Requested at the card acquirer.", "Pedida en el procesador de tarjetas.";
        RefundReason::ReturnedByBank(code) = "Feita pelo banco: {}.", "Returned by the bank: {}.", "Hecha por el banco: {}.", code;
    }
}

impl State for CaseEvent {
    fn shown(self) -> (Tone, Word) {
        match self {
            Self::Opened => (Tone::Warn, OPENED),
            Self::OpenedUnconfirmed => (Tone::Warn, UNCONFIRMED),
            Self::EvidenceRequested => (Tone::Warn, EVIDENCE_REQUESTED),
            Self::Appealed => (Tone::Info, w::CASE_APPEALED),
            Self::Ended(status, _) => status.shown(),
        }
    }
}

/// What an entry is about, and its state if it has words: an event has only its type.
pub(crate) fn words_of(charge: &Charge, entry: &TimelineEntry) -> (Word, Option<(Tone, Word)>) {
    match &entry.fact {
        TimelineFact::Payment(None) if charge.is_held_for_review() => {
            (w::KIND_PAYMENT, Some((Tone::Info, w::IN_REVIEW)))
        }
        TimelineFact::Status(TransactionStatus::Refunded, _) => (w::CHARGE, Some(of_charge(charge))),
        TimelineFact::Status(status, _) => (w::CHARGE, Some(status.shown())),
        TimelineFact::Payment(None) => (w::KIND_PAYMENT, Some((Tone::Good, ACCEPTED))),
        TimelineFact::Payment(Some((status, _))) => (w::KIND_PAYMENT, Some(status.shown())),
        TimelineFact::Unapplied(_) => (w::KIND_PAYMENT, Some((Tone::Warn, UNAPPLIED))),
        TimelineFact::Refund { status, .. } => {
            (BackWords::of(charge).kind, Some(BackWords::of(charge).shown(*status)))
        }
        TimelineFact::Case(_, event) => (w::KIND_CASE, Some(event.shown())),
        TimelineFact::Posting(kind) => (w::WALLET, Some((Tone::Calm, movement_of(*kind, Some(charge))))),
        TimelineFact::Event(_) => (w::KIND_EVENT, None),
        TimelineFact::Delivery(delivery) => (w::KIND_DELIVERY, Some(delivery.status.shown())),
    }
}

/// A step of a charge for people, with its state if that can change. `payer`: who paid it, if that is known. `None`: the
/// step is technical, or another one says the same.
pub(crate) fn sentence(
    language: Language,
    timeline: &ChargeTimeline,
    entry: &TimelineEntry,
    payer: Option<&str>,
) -> Option<(String, Option<(Tone, Word)>)> {
    use TransactionStatus::{Approved, Cancelled, Expired, Paid, Refused};
    let is_card = timeline.charge.method() == PaymentMethod::CreditCard;
    let by_method = |card, other| Some(if is_card { card } else { other });
    let mut state = None;
    let words = match &entry.fact {
        TimelineFact::Status(..) if entry.amount.is_some() => Some(SAYS_CREATED),
        TimelineFact::Status(Paid | Approved, _) if timeline.payments.is_empty() => Some(SAYS_PAID),
        TimelineFact::Status(Refused, _) => Some(SAYS_DECLINED),
        TimelineFact::Status(Expired, _) => Some(SAYS_EXPIRED),
        TimelineFact::Status(Cancelled, _) => Some(SAYS_CANCELLED),
        TimelineFact::Payment(None) if timeline.charge.is_held_for_review() => Some(SAYS_HELD),
        TimelineFact::Payment(None) => Some(SAYS_RECEIVED),
        TimelineFact::Payment(Some((status, _))) => {
            state = Some(status.shown());
            Some(SAYS_NOT_CREDITED)
        }
        TimelineFact::Unapplied(_) => {
            state = Some((Tone::Warn, UNAPPLIED));
            Some(SAYS_NOT_CREDITED)
        }
        TimelineFact::Refund { status: RefundStatus::Pending, .. } => by_method(SAYS_REVERSAL, SAYS_REFUND),
        TimelineFact::Refund { status: RefundStatus::Refunded, .. } => {
            by_method(SAYS_REVERSED, SAYS_REFUNDED)
        }
        TimelineFact::Refund { status: RefundStatus::Failed, .. } => {
            by_method(SAYS_REVERSAL_FAILED, SAYS_REFUND_FAILED)
        }
        TimelineFact::Case(_, event) => Some(match event {
            CaseEvent::Opened | CaseEvent::OpenedUnconfirmed => SAYS_DISPUTED,
            CaseEvent::EvidenceRequested => SAYS_EVIDENCE,
            CaseEvent::Appealed => SAYS_APPEALED,
            CaseEvent::Ended(status, _) => {
                state = Some(status.shown());
                SAYS_DISPUTE_OVER
            }
        }),
        TimelineFact::Status(..)
        | TimelineFact::Refund { .. }
        | TimelineFact::Posting(_)
        | TimelineFact::Event(_)
        | TimelineFact::Delivery(_) => None,
    };
    let amount = money(entry.amount.unwrap_or_default(), timeline.charge.currency);
    let method = language.say(pages::words::of_method(timeline.charge.method()));
    let text = match (words?, payer) {
        (SAYS_RECEIVED, Some(payer)) => language.fill(SAYS_PAYS, &[payer, &amount, method]),
        (words, _) => language.fill(words, &[&amount, method]),
    };
    Some((text, state))
}

/// What is known beside the state, in words. `None`: the state says it.
pub(crate) fn details_of(language: Language, entry: &TimelineEntry) -> Option<String> {
    match &entry.fact {
        TimelineFact::Status(_, reason) => reason.as_ref().map(|reason| failure_reason(language, reason)),
        TimelineFact::Payment(returned) => {
            returned.map(|(_, reason)| language.say(unapplied(reason)).to_owned())
        }
        TimelineFact::Unapplied(other) => Some(other.map_or_else(
            || language.say(UNAPPLIED_MEANS).to_owned(),
            |other| language.fill(CREDITED_TO, &[&other.to_string()]),
        )),
        TimelineFact::Refund { strategy: by, failure, .. } => {
            let by = by.map(|by| language.say(strategy(by)).to_owned());
            let failure = failure.as_ref().map(|failure| refund_failure(language, failure));
            let texts: Vec<String> = by.into_iter().chain(failure).collect();
            (!texts.is_empty()).then(|| texts.join(": "))
        }
        TimelineFact::Case(_, CaseEvent::Ended(_, outcome)) => {
            outcome.map(|outcome| language.say(outcome_name(outcome)).to_owned())
        }
        TimelineFact::Delivery(delivery) => delivery.answer_in(language),
        TimelineFact::Case(..) | TimelineFact::Posting(_) | TimelineFact::Event(_) => None,
    }
}

pages::translate! {
    /// The details of an audit row. Ids, addresses and names stay as they are.
    pub(crate) fn details(language, &Action) {
        Action::OpenAccount { .. } | Action::CheckAcquirer(_) | Action::DropOldCallbackTokens(_) | Action::ForgetAcquirer(_)
        | Action::RemoveAcquirer(_) | Action::RotateCallbackToken(_) | Action::ExpireCharge | Action::EraseCustomer
        | Action::ReplayEvents | Action::ResumeLiveCharges | Action::StopLiveCharges | Action::RequestEvidence
        | Action::CreditReceipt | Action::RecordReceipt | Action::ReturnReceipt | Action::RecordRefundAtBank | Action::FailRefund
        | Action::ConfirmSession | Action::LockOut | Action::LogIn | Action::LogOut | Action::SecondFactorOn
        | Action::CopyRow { .. } | Action::ResolveNotification { read_back: None } = "", "", "";
        Action::RequireSecondFactor(changed) | Action::ResumeAccount(changed) | Action::SetAcquirer(changed) | Action::SetBrand(changed)
        | Action::SetBoletoDue(changed) | Action::SetChargeExpiry(changed) | Action::SetContact(changed) | Action::SetDocument(changed) | Action::SetFees(changed) | Action::SetFeesOnRefund(changed)
        | Action::SetHold(changed) | Action::SetMail(changed) | Action::SetPixOutFee(changed) | Action::SetRateLimit(changed)
        | Action::SetRefundOverdraft(changed) | Action::SetRefundsToPayerOnly(changed) | Action::SetShards(changed)
        | Action::SetShardsRead(changed) | Action::SetThirdPartyRefundLimit(changed) | Action::SetVelocity(changed)
        | Action::SuspendAccount(changed) = "{}", "{}", "{}", changes(language, changed);
        Action::IssueKey(key) | Action::RevokeKey(key) = "{}", "{}", "{}", key_in(language, key);
        Action::RotateKey { replaced_by, key } = "trocada por {}, {}", "replaced by {}, {}", "reemplazada por {}, {}", replaced_by.as_str(), key_in(language, key);
        Action::RotateMedSecret(connection) = "{}", "{}", "{}", connection.to_string();
        Action::CancelCharge { sum, before } = "{}, antes: {}", "{}, before: {}", "{}, antes: {}", sum_in(language, sum), language.say(before.shown().1);
        Action::ChangePaymentLink(in_mode) | Action::CreatePaymentLink(in_mode) | Action::RevealDocument(in_mode) | Action::RotateOverrideSecret(in_mode) | Action::DisableEndpoint(in_mode) = "{}", "{}", "{}", language.say(mode(*in_mode));
        Action::RedriveDeliveries { scope, deliveries, since } = "{}: {} entregas desde {}", "{}: {} deliveries since {}", "{}: {} entregas desde {}", language.say(mode(scope.mode)), deliveries.to_string(), format_short_minute(*since);
        Action::AdjustLedger(sum) | Action::AppealCase(sum) | Action::ConfirmCase(sum) | Action::CreatePayout(sum) | Action::FailPayout(sum)
        | Action::SettlePayout(sum) | Action::BookAgain(sum) | Action::ApproveReview(sum) | Action::ReturnReview(sum) = "{}", "{}", "{}", sum_in(language, sum);
        Action::AcceptCase { sum, lost } = "{}, perdido: {}", "{}, lost: {}", "{}, perdido: {}", sum_in(language, sum), money(*lost, sum.currency);
        Action::AddEvidence(AddedEvidence::Files(in_mode, files)) | Action::RemoveEvidence { mode: in_mode, left: files } = "{}, arquivos: {}", "{}, files: {}", "{}, archivos: {}", language.say(mode(*in_mode)), files.to_string();
        Action::AddEvidence(AddedEvidence::File(id, name)) = "{} {}", "{} {}", "{} {}", id.to_string(), name;
        Action::DecideCase(of_case) = "{}", "{}", "{}", language.say(decision(*of_case));
        Action::DismissNotice(id) | Action::ResolveNotification { read_back: Some(id) } = "{}", "{}", "{}", id.as_str();
        Action::ForwardEvidence { files, .. } = "arquivos: {}", "files: {}", "archivos: {}", files.join(" ");
        Action::ApprovePayoutKey(key) | Action::RegisterPayoutKey(key) | Action::RejectPayoutKey(key) = "{}", "{}", "{}", key;
        Action::RetryNotice(id) = "{}", "{}", "{}", id.to_string();
        Action::ApplyReceipt(id) = "{}", "{}", "{}", id.to_string();
        Action::CreateRefund { sum, charge, strategy: None, .. } = "{} da cobrança {}", "{} of the charge {}", "{} del cobro {}", sum_in(language, sum), short(&charge.to_string(), 14);
        Action::CreateRefund { sum, charge, strategy: Some(by), to } = "{} da cobrança {}. {} {}", "{} of the charge {}. {} {}", "{} del cobro {}. {} {}", sum_in(language, sum), short(&charge.to_string(), 14), language.say(strategy(*by)), to.as_ref().map(|to| format!("→ {to}")).unwrap_or_default();
        Action::AddUser { email, role } | Action::InviteUser { email, role } = "{}, {}", "{}, {}", "{}, {}", email, language.say(w::of_role(*role));
        Action::RemoveUser { email, role } = "{}, era {}", "{}, was {}", "{}, era {}", email, language.say(w::of_role(*role));
        Action::EndSessions { email } | Action::ResetPassword { email } | Action::SecondFactorOff { email } | Action::WithdrawInvite { email } = "{}", "{}", "{}", email;
        Action::SetRole { email, from, to } = "{} {} → {}", "{} {} → {}", "{} {} → {}", email, language.say(w::of_role(*from)), language.say(w::of_role(*to));
        Action::ChangeEndpoint { mode: of, url, added, removed, status } = "{} {}", "{} {}", "{} {}", language.say(mode(*of)), endpoint_changes(language, url.as_ref(), (added, removed), *status);
        Action::DeleteEndpoint { mode: of, server } | Action::RotateEndpointSecret { mode: of, server } = "{} {}", "{} {}", "{} {}", language.say(mode(*of)), server;
        Action::RegisterEndpoint { mode: of, server, events } = "{} {}, eventos: {}", "{} {}, events: {}", "{} {}, eventos: {}", language.say(mode(*of)), server, names(events);
    }
    fn key_in(language, &AuditedKey) {
        AuditedKey { mode: of, prefix, label } = "{}, prefixo {}, {}", "{}, prefix {}, {}", "{}, prefijo {}, {}", language.say(mode(*of)), prefix, label;
    }
}

fn sum_in(language: Language, sum: &Sum) -> String {
    format!("{} ({})", money(sum.minor, sum.currency), language.say(mode(sum.mode)))
}

fn names(events: &[EventType]) -> String {
    events.iter().map(|event| event.as_str()).collect::<Vec<_>>().join(", ")
}

fn endpoint_changes(
    language: Language,
    url: Option<&(String, String)>,
    (added, removed): (&[EventType], &[EventType]),
    status: Option<(EndpointStatus, EndpointStatus)>,
) -> String {
    let url = url.map(
        |(from, to)| {
            if from == to { language.fill(OTHER_PATH, &[to]) } else { format!("{from} → {to}") }
        },
    );
    let of_events = |word, events: &[EventType]| {
        (!events.is_empty()).then(|| format!("{}: {}", language.say(word), names(events)))
    };
    let say = |status: EndpointStatus| language.say(status.shown().1);
    let status = status.map(|(from, to)| format!("{} → {}", say(from), say(to)));
    let changes = [url, of_events(EVENTS_ADDED, added), of_events(EVENTS_REMOVED, removed), status];
    let changes: Vec<String> = changes.into_iter().flatten().collect();
    if changes.is_empty() { language.say(NOTHING).to_owned() } else { changes.join("; ") }
}

/// The fields of a setting that a change altered. Those without a word are left out: the action says enough.
fn changes(language: Language, Changed { before, after }: &Changed) -> String {
    let say = |value: &Value| match value {
        Value::Bool(true) => language.say(YES).to_owned(),
        Value::Bool(false) => language.say(NO).to_owned(),
        Value::String(text) => text.clone(),
        _ => "—".to_owned(),
    };
    if after.is_boolean() {
        return format!("{} → {}", say(before), say(after));
    }
    let changed =
        after.as_object().into_iter().flatten().filter(|(name, value)| before.get(name) != Some(*value));
    let changed = changed.filter_map(|(name, value)| {
        let word = language.say(field_word(name)?);
        // A logo is a hash of its file.
        if name == "logo" && !value.is_null() {
            return Some(format!("{word}: {}", language.say(REPLACED)));
        }
        Some(format!("{word}: {} → {}", say(before.get(name).unwrap_or(&Value::Null)), say(value)))
    });
    changed.collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use domain::money::Currency;
    use serde_json::json;
    use shared::account::Role;

    use super::*;

    #[test]
    fn the_details_of_audit_rows_are_words() {
        let sum = |minor| Sum { mode: Mode::Test, currency: Currency::BRL, minor };
        let charge = "ch_7d9f0335-8dcc-4054-9bf9-0dbd61d36906".parse().unwrap();
        let key =
            AuditedKey { mode: Mode::Test, prefix: "ak_test_1".to_owned(), label: "to test".to_owned() };
        let changed = |before, after| Changed { before, after };
        let (email, strategy) = ("ana@loja.example".to_owned(), Some(RefundStrategy::Cashout));
        for (action, shown) in [
            (
                Action::CancelCharge { sum: sum(5_000), before: TransactionStatus::WaitingPayment },
                "R$ 50,00 (teste), antes: Aguardando pagamento",
            ),
            (
                Action::CreateRefund { sum: sum(400), charge, strategy, to: Some("***93".to_owned()) },
                "R$ 4,00 (teste) da cobrança ch_7d9f0335-8d…. Por um novo Pix → ***93",
            ),
            (
                Action::CreateRefund { sum: sum(400), charge, strategy: None, to: None },
                "R$ 4,00 (teste) da cobrança ch_7d9f0335-8d…",
            ),
            (Action::AcceptCase { sum: sum(5_000), lost: 4_000 }, "R$ 50,00 (teste), perdido: R$ 40,00"),
            (
                Action::SetRole { email, from: Role::Owner, to: Role::Member },
                "ana@loja.example Proprietário → Membro",
            ),
            (Action::IssueKey(key), "teste, prefixo ak_test_1, to test"),
            (Action::RequireSecondFactor(changed(json!(false), json!(true))), "não → sim"),
            (
                Action::SetBrand(changed(
                    json!({"name": "A", "color": null}),
                    json!({"name": "B", "color": null}),
                )),
                "Nome: A → B",
            ),
            (Action::SetBrand(changed(json!({"logo": "0a1b"}), json!({"logo": "2c3d"}))), "Logo: trocado"),
            (Action::RemoveAcquirer(json!({"pix_key": "x"})), ""),
        ] {
            assert_eq!(details(Language::Portuguese, &action), shown);
        }
    }
}
