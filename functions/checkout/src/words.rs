//! The words of the checkout page.

pub(crate) use pages::words::*;

pages::words! { pub(crate),
    TEST = "Ambiente de teste", "Test mode", "Modo de prueba";
    TEST_MEANS = "nenhum dinheiro é cobrado.", "no money is charged.", "no se cobra dinero.";
    PREPARING = "Preparando o pagamento", "Preparing the payment", "Preparando el pago";
    PAY_BY_PIX = "Pague com Pix", "Pay by Pix", "Pague con Pix";
    PAY = "Pague esta cobrança", "Pay this charge", "Pague este cobro";
    CONFIRMING = "Confirmando o pagamento", "Confirming the payment", "Confirmando el pago";
    CLOSING = "Verificando o pagamento", "Checking the payment", "Verificando el pago";
    COLLECTING = "Prazo encerrado, aguardando confirmação", "Time is over, waiting for confirmation", "Plazo terminado, a la espera de confirmación";
    PROCESSING = "Pagamento em análise", "Payment under review", "Pago en revisión";
    PAID = "Pagamento confirmado", "Payment confirmed", "Pago confirmado";
    CANCELLED = "Cobrança cancelada", "Charge cancelled", "Cobro cancelado";
    EXPIRED = "Cobrança expirada", "Charge expired", "Cobro vencido";
    REVERSED = "Pagamento estornado", "Payment refunded", "Pago reembolsado";
    REFUNDED = "Pagamento devolvido", "Payment refunded", "Pago devuelto";
    DISPUTED = "Pagamento em disputa", "Payment disputed", "Pago en disputa";
    DISPUTE_ENDED = "Disputa encerrada", "Dispute closed", "Disputa cerrada";
    AT = "{} (horário de Brasília)", "{} (Brasília time)", "{} (hora de Brasilia)";
    UNTIL = "Pague até {}.", "Pay by {}.", "Pague hasta el {}.";
    PREPARING_MEANS = "O código Pix aparece aqui em instantes.", "The Pix code appears here in a moment.", "El código Pix aparece aquí en unos instantes.";
    CONFIRMING_MEANS = "Estamos confirmando o pagamento com cartão. Não pague de novo: o resultado aparece aqui.",
        "We are confirming the payment by card. Do not pay again: the result appears here.",
        "Estamos confirmando el pago con tarjeta. No pague de nuevo: el resultado aparece aquí.";
    AUTHENTICATING_MEANS = "O pagamento com cartão começou. Se você já o autorizou no banco, não pague de novo: o resultado aparece aqui. Se não, continue.",
        "The payment by card has begun. If you have authorised it at your bank, do not pay again: the result appears here. If not, go on.",
        "El pago con tarjeta comenzó. Si ya lo autorizó en su banco, no pague de nuevo: el resultado aparece aquí. Si no, continúe.";
    GO_ON_BY_CARD = "Continuar o pagamento com cartão", "Go on with the payment by card", "Continuar el pago con tarjeta";
    OTHER_WAYS = "Pagar de outra forma", "Pay in another way", "Pagar de otra forma";
    MBWAY_UNCONFIRMED_MEANS = "Estamos confirmando o pagamento com MB WAY. Se o aplicativo ainda pedir, confirme nele. Não pague de novo: o resultado aparece aqui.",
        "We are confirming the payment by MB WAY. If the app still asks, confirm it there. Do not pay again: the result appears here.",
        "Estamos confirmando el pago con MB WAY. Si la aplicación aún lo pide, confírmelo en ella. No pague de nuevo: el resultado aparece aquí.";
    VOUCHER_UNCONFIRMED_MEANS = "Um banco aceitou o pagamento. A confirmação pode levar alguns dias úteis. Não pague de novo: o resultado aparece aqui.",
        "A bank has accepted the payment. The confirmation may take some business days. Do not pay again: the result appears here.",
        "Un banco aceptó el pago. La confirmación puede tardar algunos días hábiles. No pague de nuevo: el resultado aparece aquí.";
    NOT_PAID_BY_CARD = "O pagamento com cartão não foi concluído. Pague de novo.",
        "The payment by card was not completed. Pay again.",
        "El pago con tarjeta no se completó. Pague de nuevo.";
    TRY_DECLINED = "A última tentativa de pagamento foi recusada, e nada foi cobrado. Você pode tentar de novo ou escolher outra forma.",
        "The last try to pay was declined, and nothing was charged. You can try again, or choose another way.",
        "El último intento de pago fue rechazado y no se cobró nada. Puede intentarlo de nuevo o elegir otra forma.";
    CARD_UNKNOWN = "Ainda não sabemos se o pagamento com cartão foi concluído. Se você já pagou, não pague de novo: a confirmação aparece aqui. Se não pagou, escolha como pagar.",
        "We do not know yet whether the payment by card was completed. If you have paid, do not pay again: the confirmation appears here. If not, choose how to pay.",
        "Aún no sabemos si el pago con tarjeta se completó. Si ya pagó, no pague de nuevo: la confirmación aparece aquí. Si no pagó, elija cómo pagar.";
    CLOSING_MEANS = "O prazo para pagar terminou em {}. Se você já pagou, aguarde: a confirmação aparece aqui. Se não pagou, não pague mais.",
        "The time to pay ended on {}. If you have paid, wait: the confirmation appears here. If not, do not pay any more.",
        "El plazo para pagar terminó el {}. Si ya pagó, espere: la confirmación aparece aquí. Si no pagó, ya no pague.";
    UNCONFIRMED_MEANS = "A rede ainda não confirmou o pagamento. Se você já o enviou, não pague de novo: o resultado aparece aqui.",
        "The network has not confirmed the payment yet. If you have sent it, do not pay again: the result appears here.",
        "La red aún no confirmó el pago. Si ya lo envió, no pague de nuevo: el resultado aparece aquí.";
    GOES_BACK = "Um pagamento que chegou não foi aceito e volta para quem o fez.",
        "A payment that arrived was not accepted and goes back to its payer.",
        "Un pago que llegó no fue aceptado y vuelve a quien lo hizo.";
    NOT_CREDITED = "Um pagamento que chegou não foi aceito por esta cobrança. Fale com a loja.",
        "A payment that arrived was not accepted by this charge. Ask the shop.",
        "Un pago que llegó no fue aceptado por este cobro. Hable con la tienda.";
    PROCESSING_MEANS = "Seu pagamento está sendo analisado. Não pague de novo: o resultado aparece aqui.",
        "Your payment is under review. Do not pay again: the result appears here.",
        "Su pago está en revisión. No pague de nuevo: el resultado aparece aquí.";
    PAID_MEANS = "Recebemos o seu pagamento. Obrigado!", "We received your payment. Thank you!", "Recibimos su pago. ¡Gracias!";
    PARTLY_RETURNED = "A loja já devolveu {} deste valor.", "The shop has refunded {} of this amount.", "La tienda ya devolvió {} de este importe.";
    REFUSED_MEANS = "O pagamento não foi concluído. Para tentar de novo, peça uma nova cobrança à loja.",
        "The payment was not completed. To try again, ask the shop for a new charge.",
        "El pago no se completó. Para intentarlo de nuevo, pida un nuevo cobro a la tienda.";
    CANCELLED_MEANS = "Esta cobrança foi cancelada e não pode mais ser paga. Em caso de dúvida, fale com a loja.",
        "This charge was cancelled and can no longer be paid. If in doubt, ask the shop.",
        "Este cobro fue cancelado y ya no puede pagarse. En caso de duda, hable con la tienda.";
    EXPIRED_MEANS = "O prazo para pagar terminou em {}. Não pague mais: peça uma nova cobrança à loja.",
        "The time to pay ended on {}. Do not pay any more: ask the shop for a new charge.",
        "El plazo para pagar terminó el {}. Ya no pague: pida un nuevo cobro a la tienda.";
    REVERSED_MEANS = "O valor foi estornado no cartão. Em caso de dúvida, fale com a loja.",
        "The amount was refunded to the card. If you have questions, ask the shop.",
        "El importe fue reembolsado en la tarjeta. Si tiene dudas, hable con la tienda.";
    REFUNDED_MEANS = "O valor foi devolvido à conta de onde saiu. Em caso de dúvida, fale com a loja.",
        "The amount was returned to the account from which it came. If in doubt, ask the shop.",
        "El importe fue devuelto a la cuenta de la que salió. En caso de duda, hable con la tienda.";
    DISPUTED_MEANS = "Este pagamento foi contestado e está sendo analisado. Acompanhe o caso pelo seu banco.",
        "This payment was disputed and is under review. Your bank informs you about the case.",
        "Este pago fue impugnado y está en revisión. Su banco le informa sobre el caso.";
    DISPUTE_ENDED_MEANS = "A disputa terminou a favor de quem pagou. O prazo do crédito é o do banco ou do cartão.",
        "The dispute ended in favour of the payer. The bank or card decides when the credit arrives.",
        "La disputa terminó a favor de quien pagó. El plazo del crédito es el del banco o de la tarjeta.";
    TAB_TITLE = "{}: {} para {}", "{}: {} to {}", "{}: {} para {}";
    TO = "Para", "To", "Para";
    PAID_BY = "Pago com", "Paid by", "Pagado con";
    END_TO_END = "Id da transação", "Transaction id", "Id de la transacción";
    CONTACT = "Fale com a loja:", "Contact the shop:", "Hable con la tienda:";
    METHODS = "Escolha como pagar", "Choose how to pay", "Elija cómo pagar";
    LINE = "Linha digitável", "Digitable line", "Línea digitable";
    COPY_LINE = "Copiar linha digitável", "Copy the line", "Copiar la línea";
    OPEN_BOLETO = "Abrir o boleto", "Open the boleto", "Abrir el boleto";
    MBWAY = "Confirme o pagamento no aplicativo MB WAY do telefone terminado em",
        "Confirm the payment in the MB WAY app of the phone that ends in",
        "Confirme el pago en la aplicación MB WAY del teléfono terminado en";
    ENTITY = "Entidade", "Entity", "Entidad";
    REFERENCE = "Referência", "Reference", "Referencia";
    NETWORK = "Rede", "Network", "Red";
    ADDRESS = "Endereço", "Address", "Dirección";
    EXACT_AMOUNT = "Valor exato", "Exact amount", "Importe exacto";
    CURRENCY = "Moeda", "Currency", "Moneda";
    COPY_ADDRESS = "Copiar endereço", "Copy the address", "Copiar la dirección";
    COPY_AMOUNT = "Copiar valor", "Copy the amount", "Copiar el importe";
    CRYPTO_QR = "QR code do endereço e do valor", "QR code of the address and the amount", "Código QR de la dirección y del importe";
    CRYPTO_MEANS = "Envie o valor exato em uma só transação, por esta rede. A confirmação leva de alguns minutos a uma hora.", "Send the exact amount in one transaction, by this network. The confirmation takes some minutes to an hour.", "Envíe el importe exacto en una sola transacción, por esta red. La confirmación tarda de unos minutos a una hora.";
    CODE = "Pix copia e cola", "Pix code to copy and paste", "Código Pix para copiar y pegar";
    COPY_CODE = "Copiar código", "Copy the code", "Copiar el código";
    CODE_COPIED = "Copiado ✓", "Copied ✓", "Copiado ✓";
    NOT_COPIED = "Selecione e copie o código", "Select and copy the code", "Seleccione y copie el código";
    SHARE = "Compartilhar", "Share", "Compartir";
    QR = "QR code Pix desta cobrança", "Pix QR code of this charge", "Código QR Pix de este cobro";
    HOW = "Como pagar", "How to pay", "Cómo pagar";
    STEP_1 = "Abra o aplicativo do seu banco e escolha pagar com Pix.", "Open your bank's app and choose to pay by Pix.", "Abra la aplicación de su banco y elija pagar con Pix.";
    STEP_2 = "Cole o código em “Pix copia e cola” ou escaneie o QR code.", "Paste the code under “Pix copia e cola”, or scan the QR code.", "Pegue el código en “Pix copia e cola” o escanee el código QR.";
    STEP_3 = "Confira o valor e o nome de quem recebe e confirme.", "Check the amount and the receiver's name, and confirm.", "Revise el importe y el nombre de quien recibe, y confirme.";
    CONFIRMATION = "A confirmação aparece nesta página em alguns segundos.", "The confirmation appears on this page within a few seconds.", "La confirmación aparece en esta página en unos segundos.";
    LEFT = "Faltam", "Time left:", "Quedan";
    FIVE_MINUTES = "Faltam 5 minutos para pagar.", "5 minutes are left to pay.", "Quedan 5 minutos para pagar.";
    ONE_MINUTE = "Falta 1 minuto para pagar.", "1 minute is left to pay.", "Queda 1 minuto para pagar.";
    SIMULATE = "Simular pagamento", "Simulate the payment", "Simular el pago";
    SIMULATE_MEANS = "Ambiente de teste: nenhum dinheiro é movimentado.", "Test mode: no money moves.", "Modo de prueba: no se mueve dinero.";
    AS_PAID = "Pago", "Paid", "Pagado";
    AS_PAID_BY = "Pago: {}", "Paid: {}", "Pagado: {}";
    AS_DECLINED = "Recusado", "Declined", "Rechazado";
    UNAVAILABLE_MEANS = "Não conseguimos carregar esta cobrança. Tentamos de novo em alguns segundos. Se você já pagou, não pague de novo.",
        "This charge could not be loaded. The page tries again in a few seconds. If you have paid, do not pay again.",
        "No pudimos cargar este cobro. Lo intentamos de nuevo en unos segundos. Si ya pagó, no pague de nuevo.";
}
