//! The help for shop owners: twelve questions, whom to ask, and a glossary. Every role may read it.

use axum::response::Response;
use maud::{Markup, html};
use pages::{Language, Word};
use shared::account::Role;
use shared::http::Result;

use crate::visit::Visitor;
use crate::words as w;

/// A paragraph. Each `{}` is a word of another page, such as the label of a button, so the help follows its changes.
struct Text {
    words: Word,
    labels: Vec<Word>,
}

/// A question with its answer, a term with its meaning, or a contact with the topics.
struct Entry {
    /// The id of the heading, for links to it.
    id: &'static str,
    title: Word,
    texts: Vec<Text>,
    /// Path and word.
    links: Vec<(&'static str, Word)>,
}

/// `id "título", "title", "título" { "texto", "text", "texto", LABEL…; … } [path WORD, …]`
macro_rules! entries {
    ($($(#[$doc:meta])* fn $name:ident() {
        $($id:literal $pt:literal, $en:literal, $es:literal
            { $($text_pt:literal, $text_en:literal, $text_es:literal $(, $label:expr)*;)+ }
            [$($path:literal $word:expr),*])+
    })+) => {
        $($(#[$doc])* fn $name() -> Vec<Entry> {
            vec![$(Entry {
                id: $id,
                title: Word { pt: $pt, en: $en, es: $es },
                texts: vec![$(Text {
                    words: Word { pt: $text_pt, en: $text_en, es: $text_es },
                    labels: vec![$($label),*],
                }),+],
                links: vec![$(($path, $word)),*],
            }),+]
        })+
    };
}

pages::words! { ,
    LEAD = "Para quem vende e não tem um programador por perto. Os horários são os de Brasília.", "For people who sell and have no developer at hand. Times are those of Brasília.", "Para quien vende y no tiene un programador cerca. Los horarios son los de Brasilia.";
    QUESTIONS = "Perguntas", "Questions", "Preguntas";
    CONTACTS = "Com quem falar", "Whom to ask", "Con quién hablar";
    TERMS = "Glossário", "Glossary", "Glosario";
    GUIDE_IN_PORTUGUESE = "Primeiros passos, em português", "Quickstart, in Portuguese", "Primeros pasos, en portugués";
}

entries! {
    fn questions() {
        "money" "Quando recebo o meu dinheiro?", "When do I get my money?", "¿Cuándo recibo mi dinero?" {
            "O pagamento entra no saldo quando a cobrança fica {}. Se a sua conta tem prazo para aquela forma de pagamento, o valor fica em {} e passa para {} à 0h do dia marcado. Sem prazo, fica disponível na hora; o Pix, em geral, não tem prazo.", "A payment enters the balance when its charge is {}. If your account has a hold for that payment method, the amount is {}, and becomes {} at 00:00 of its day. Without a hold it is available at once; Pix usually has none.", "El pago entra en el saldo cuando el cobro queda {}. Si su cuenta tiene plazo para ese medio de pago, el importe queda en {} y pasa a {} a las 0 h del día fijado. Sin plazo, está disponible al momento; Pix, en general, no tiene plazo.", w::PAID, w::PENDING, w::AVAILABLE;
            "A página {} mostra quanto é liberado em cada dia. Ali o proprietário também usa {}: antes, registra uma chave Pix do CPF ou CNPJ da conta, que o suporte confere e que funciona depois de 48 horas. O valor sai do saldo na hora, e o suporte o transfere, ou recusa e ele volta.", "The page {} shows how much is released on each day. There an owner also uses {}: first register a Pix key of the account's CPF or CNPJ, which your operator checks and which works after 48 hours. The amount leaves the balance at once; your operator transfers it, or rejects the request and it comes back.", "La página {} muestra cuánto se libera cada día. Allí el dueño también usa {}: antes registra una clave Pix del CPF o CNPJ de la cuenta, que su operador revisa y que funciona después de 48 horas. El importe sale del saldo al momento; su operador lo transfiere, o lo rechaza y vuelve.", w::WALLET, w::REQUEST_PAYOUT;
            "Um pagamento em criptomoeda vai direto para a sua própria carteira e não entra neste saldo.", "A payment in cryptocurrency goes straight to your own wallet and is not part of this balance.", "Un pago en criptomoneda va directo a su propia billetera y no entra en este saldo.";
        } ["/dashboard/wallet" w::WALLET, "/dashboard/payouts" w::PAYOUTS]

        "refund" "Como devolvo um pagamento?", "How do I refund a payment?", "¿Cómo devuelvo un pago?" {
            "Abra a cobrança, escolha {}, informe o valor (todo ou uma parte) e confirme. Em produção, só um proprietário ou administrador pode devolver, e o painel pode pedir a senha de novo.", "Open the charge, choose {}, enter the amount (all or a part) and confirm. In live mode only an owner or administrator can refund, and the dashboard may ask for the password again.", "Abra el cobro, elija {}, indique el importe (todo o una parte) y confirme. En producción, solo un dueño o administrador puede devolver, y el panel puede pedir la contraseña de nuevo.", w::REFUND;
            "Um Pix volta para a conta que pagou e só pode ser devolvido até 90 dias depois do pagamento. Uma compra no cartão é estornada no próprio cartão. Boleto, MB WAY, Multibanco e criptomoeda não podem ser devolvidos pelo painel.", "A Pix goes back to the account that paid, and only within 90 days of the payment. A card payment goes back to the card. Boleto, MB WAY, Multibanco and cryptocurrency can't be refunded in the dashboard.", "Un Pix vuelve a la cuenta que pagó, y solo hasta 90 días después del pago. Una compra con tarjeta se reembolsa en la misma tarjeta. Boleto, MB WAY, Multibanco y criptomoneda no pueden devolverse en el panel.";
            "O valor sai do seu saldo; se a devolução falhar, ele volta. Não faça um Pix novo pelo app do seu banco: o banco do pagador não o liga à venda, e uma disputa pode tirar o mesmo valor outra vez.", "The amount leaves your balance; if the refund fails, it comes back. Do not send a new Pix in your bank's app: the payer's bank does not connect it with the sale, and a dispute can take the same amount again.", "El importe sale de su saldo; si la devolución falla, vuelve. No haga un Pix nuevo en la app de su banco: el banco del pagador no lo vincula con la venta, y una disputa puede quitar el mismo importe otra vez.";
        } ["/dashboard/charges?status=paid" w::CHARGES, "/dashboard/refunds" w::REFUNDS]

        "dispute" "O que é uma disputa e o que eu faço?", "What is a dispute, and what do I do?", "¿Qué es una disputa y qué hago?" {
            "O pagador pediu o dinheiro de volta: no Pix, ao banco dele, pelo MED; no cartão, ao emissor. Em geral o valor fica {} até o fim, e a cobrança não pode ser devolvida.", "The payer claims the money back: of a Pix from the payer's bank, by MED; of a card payment from the card's issuer. The amount is usually {} until the end, and the charge can't be refunded.", "El pagador pidió el dinero de vuelta: en Pix, a su banco, por el MED; con tarjeta, al emisor. En general el importe queda {} hasta el final, y el cobro no puede devolverse.", w::RETAINED;
            "Abra a disputa e veja o prazo. Junte as provas: nota fiscal, comprovante de entrega, conversas com o cliente. Anexe os arquivos e depois use {}: a contestação é enviada uma só vez e, passado o prazo, não é mais aceita. Se o pagador tem razão, use {}, que é definitivo. Em produção, só um proprietário ou administrador responde.", "Open the dispute and see the deadline. Collect the evidence: invoice, proof of delivery, messages of the customer. Attach the files, then use {}: an appeal is sent only once, and not accepted after the deadline. If the payer is right, use {}, which is final. In live mode only an owner or administrator answers.", "Abra la disputa y vea el plazo. Reúna las pruebas: factura, comprobante de entrega, mensajes del cliente. Adjunte los archivos y después use {}: la apelación se envía una sola vez y, pasado el plazo, ya no se acepta. Si el pagador tiene razón, use {}, que es definitivo. En producción, solo un dueño o administrador responde.", w::DO_APPEAL, w::ACCEPT_LOSS;
            "O suporte lê a contestação e as provas; nada segue sozinho para o banco. Quem decide é o banco do pagador ou o emissor do cartão. Se a decisão for a seu favor, o valor retido volta para o saldo disponível.", "Your operator reads the appeal and the evidence; nothing goes to the bank by itself. The payer's bank or the card's issuer decides. If it decides for you, the retained amount is available again.", "Su operador lee la apelación y las pruebas; nada va solo al banco. Decide el banco del pagador o el emisor de la tarjeta. Si decide a su favor, el importe retenido vuelve al saldo disponible.";
        } ["/dashboard/disputes" w::DISPUTES]

        "unpaid" "O cliente pagou, mas a cobrança não aparece como paga. Por quê?", "A customer paid, and the charge is not shown as paid. Why?", "El cliente pagó, pero el cobro no aparece como pagado. ¿Por qué?" {
            "Um Pix costuma aparecer em segundos; um boleto, um dia útil depois do pagamento, ou mais se foi pago no último dia. Confira no alto da página se você está em {}: o modo teste não recebe pagamentos de verdade.", "A Pix usually appears within seconds; a boleto one business day after the payment, or later if it was paid on the last day. Check at the top of the page that you see {}: test mode receives no real payments.", "Un Pix suele aparecer en segundos; un boleto, un día hábil después del pago, o más si se pagó el último día. Confirme arriba en la página que está en {}: el modo prueba no recibe pagos reales.", w::LIVE_MODE;
            "Peça o comprovante ao cliente e procure, na busca, o código que começa com E. Se o valor era outro, se o prazo tinha acabado ou se a cobrança já estava paga, o Pix é devolvido ao pagador automaticamente, e a linha do tempo da cobrança mostra isso.", "Ask the customer for the proof of payment, and search for the code that starts with E. If the amount was another one, the time was over or the charge was paid already, the Pix goes back to the payer automatically, and the timeline of the charge shows it.", "Pida el comprobante al cliente y busque el código que empieza con E. Si el importe era otro, si el plazo había terminado o si el cobro ya estaba pagado, el Pix se devuelve al pagador automáticamente, y la línea de tiempo del cobro lo muestra.";
            "Se um Pix não aparecer em dez minutos, envie o comprovante ao suporte.", "If a Pix does not appear within ten minutes, send the proof of payment to your operator.", "Si un Pix no aparece en diez minutos, envíe el comprobante a su operador.";
        } ["/dashboard/search" w::SEARCH_TITLE, "/dashboard/charges?status=pending" w::CHARGES]

        "deliver" "Quando posso entregar o produto?", "When can I deliver?", "¿Cuándo puedo entregar el producto?" {
            "Quando a cobrança estiver {}, e só então. Uma imagem enviada pelo cliente não prova o pagamento. Não entregue enquanto a cobrança estiver {} ou {}.", "When the charge is {}, and only then. A picture sent by the customer does not prove the payment. Do not deliver while the charge is {} or {}.", "Cuando el cobro esté {}, y solo entonces. Una imagen enviada por el cliente no prueba el pago. No entregue mientras el cobro esté {} o {}.", w::PAID, w::AWAITING, w::IN_REVIEW;
            "Para saber de cada venda por e-mail, ou receber um resumo às 8h da manhã, marque em {} o que você quer. A escolha vale só para você.", "To hear of each sale by e-mail, or get a summary at 8:00 in the morning, choose it at {}. The choice is only yours.", "Para enterarse de cada venta por correo, o recibir un resumen a las 8 de la mañana, elíjalo en {}. La elección es solo suya.", w::SETTINGS;
        } ["/dashboard/charges?status=paid" w::CHARGES, "/dashboard/settings" w::SETTINGS]

        "new" "Como cobro um cliente sem ter um site?", "How do I charge a customer without a website?", "¿Cómo cobro a un cliente sin tener un sitio?" {
            "Em {}, informe o valor em reais e crie a cobrança, que é paga por Pix. A página dela tem o link para enviar por {} ou {}, e {} abre a página com o QR code para o cliente ler. Pedido, cliente e descrição são opcionais e ajudam a achar a venda depois.", "At {}, enter the amount in reais and create the charge, which is paid by Pix. Its page has the link to send by {} or {}, and {} opens the page with the QR code for the customer. Order, customer and description are optional, and help to find the sale later.", "En {}, indique el importe en reales y cree el cobro, que se paga por Pix. Su página tiene el enlace para enviar por {} o {}, y {} abre la página con el código QR para el cliente. Pedido, cliente y descripción son opcionales y ayudan a encontrar la venta después.", w::NEW_CHARGE, w::BY_WHATSAPP, w::EMAIL, w::AT_COUNTER;
        } ["/dashboard/charges/new" w::NEW_CHARGE]

        "expired" "A cobrança expirou. E agora?", "The charge has expired. What now?", "El cobro venció. ¿Y ahora?" {
            "Crie outra e envie o novo link: uma cobrança expirada, recusada ou cancelada não pode mais ser paga. No campo {}, escolha por quanto tempo a nova vale, até 24 horas. Um Pix que chega depois do prazo é devolvido ao pagador.", "Create another one and send the new link: a charge that is expired, declined or cancelled can't be paid any more. In the field {}, choose how long the new one is valid, up to 24 hours. A Pix that arrives too late goes back to the payer.", "Cree otro y envíe el nuevo enlace: un cobro vencido, rechazado o cancelado ya no puede pagarse. En el campo {}, elija cuánto tiempo vale el nuevo, hasta 24 horas. Un Pix que llega después del plazo se devuelve al pagador.", w::EXPIRES_AFTER;
        } ["/dashboard/charges/new" w::NEW_CHARGE]

        "accountant" "Como dou acesso ao meu contador?", "How do I give access to my accountant?", "¿Cómo doy acceso a mi contador?" {
            "Em {}, o proprietário convida o e-mail do contador com a função {}. Ele vê e baixa tudo, em teste e em produção, com o CPF e o CNPJ dos pagadores mascarados, e não muda nada. Também pode pedir relatórios.", "At {}, the owner invites the accountant's e-mail address with the role {}. The accountant sees and downloads everything in both modes, with the payers' CPFs and CNPJs masked, and changes nothing. Asking for reports is possible.", "En {}, el dueño invita el correo del contador con el rol {}. El contador ve y descarga todo, en prueba y en producción, con el CPF y el CNPJ de los pagadores enmascarados, y no cambia nada. También puede pedir informes.", w::TEAM, w::of_role(Role::Viewer);
            "O convite vale 72 horas. Um e-mail pertence a uma só conta: se o contador já atende outra loja aqui, ele precisa de outro endereço.", "The invitation is valid for 72 hours. An address belongs to one account: an accountant who already has access to another shop here needs another address.", "La invitación vale 72 horas. Un correo pertenece a una sola cuenta: si el contador ya atiende otra tienda aquí, necesita otra dirección.";
        } ["/dashboard/team" w::TEAM]

        "statement" "Como tiro o extrato do mês?", "How do I get a monthly statement?", "¿Cómo obtengo el extracto del mes?" {
            "Em {}, peça o {} do primeiro ao último dia do mês, em PDF, CSV (abre no Excel), XLSX ou OFX. Você recebe um e-mail quando o arquivo está pronto, e ele fica na página por 90 dias.", "At {}, ask for the {} from the first to the last day of the month, as PDF, CSV (opens in Excel), XLSX or OFX. You get an e-mail when the file is ready, and it stays on the page for 90 days.", "En {}, pida el {} del primer al último día del mes, en PDF, CSV (se abre en Excel), XLSX u OFX. Usted recibe un correo cuando el archivo está listo, y queda en la página por 90 días.", w::REPORTS, w::STATEMENT;
            "Para receber todo mês sem pedir, use {} na mesma página: o arquivo do mês anterior fica pronto até as 6h do dia 1º.", "To get it each month without asking, use {} on the same page: the file of the month before is ready by 06:00 on the first.", "Para recibirlo cada mes sin pedirlo, use {} en la misma página: el archivo del mes anterior está listo hasta las 6 h del día 1.", w::SCHEDULES;
        } ["/dashboard/reports" w::REPORTS]

        "fees" "Quanto pago de tarifa?", "What are my fees?", "¿Cuánto pago de comisión?" {
            "A página de cada cobrança paga mostra a tarifa, em {}, e o que sobra para você, em {}. As de um período estão no relatório de tarifas, em {}. Os preços são os do plano da sua conta, e o plano também diz se uma devolução traz a tarifa de volta: pergunte ao suporte.", "The page of each paid charge shows the fee at {}, and what is left for you at {}. The fees of a period are in the report of fees, at {}. The prices are those of your account's plan, which also says whether a refund returns the fee: ask your operator.", "La página de cada cobro pagado muestra la comisión, en {}, y lo que queda para usted, en {}. Las comisiones de un período están en el informe de comisiones, en {}. Los precios son los del plan de su cuenta, que también dice si una devolución trae la comisión de vuelta: pregunte a su operador.", w::FEE, w::KEPT, w::REPORTS;
        } ["/dashboard/reports?type=fees" w::REPORTS]

        "negative" "Por que o meu saldo está negativo?", "Why is my balance negative?", "¿Por qué mi saldo es negativo?" {
            "Em geral, porque uma disputa ou uma devolução tirou mais do que havia no saldo disponível; o extrato, em {}, diz qual. As próximas vendas cobrem a diferença. Até lá, novas devoluções podem ser recusadas por falta de saldo.", "Usually because a dispute or a refund took more than was available; the statement, at {}, says which. The next sales cover the difference. Until then, new refunds may be refused for lack of balance.", "En general, porque una disputa o una devolución quitó más de lo que había en el saldo disponible; el extracto, en {}, dice cuál. Las próximas ventas cubren la diferencia. Hasta entonces, nuevas devoluciones pueden rechazarse por falta de saldo.", w::WALLET;
        } ["/dashboard/wallet" w::WALLET]

        "access" "Esqueci a senha ou perdi o celular. O que faço?", "I forgot my password or lost my phone. What do I do?", "Olvidé la contraseña o perdí el celular. ¿Qué hago?" {
            "Na página de login, use {}: o link chega por e-mail e vale 30 minutos. Se perdeu o celular da {}, entre com um dos códigos de recuperação que guardou. Sem eles, peça ao suporte que a desative.", "At the log-in, use {}: the link arrives by e-mail and is valid for 30 minutes. If you lost the phone of the {}, log in with one of the recovery codes that you stored. Without them, ask your operator to remove it.", "En la página de inicio, use {}: el enlace llega por correo y vale 30 minutos. Si perdió el celular de la {}, entre con uno de los códigos de recuperación que guardó. Sin ellos, pida a su operador que la desactive.", w::FORGOTTEN, w::SECOND_FACTOR;
        } ["/dashboard/security" w::OWN_ACCESS]
    }

    fn contacts() {
        "operator" "O suporte do serviço", "The operator of the service", "El operador del servicio" {
            "É a empresa que abriu a sua conta e deu o primeiro acesso a ela. Fale com o suporte sobre repasses, tarifas, prazos, dados da conta, um pagamento que não aparece ou uma devolução parada. Informe o id da cobrança, que começa com ch_. Nunca envie uma senha nem uma chave da API.", "The company that opened your account and gave the first access to it. Ask it about payouts, fees, holds, data of the account, a payment that does not appear or a refund that is stuck. Name the id of the charge, which starts with ch_. Never send a password or an API key.", "Es la empresa que abrió su cuenta y dio el primer acceso a ella. Hable con ella sobre retiros, comisiones, plazos, datos de la cuenta, un pago que no aparece o una devolución detenida. Indique el id del cobro, que empieza con ch_. Nunca envíe una contraseña ni una clave de la API.";
        } []

        "team" "O proprietário ou um administrador da conta", "The owner or an administrator of the account", "El dueño o un administrador de la cuenta" {
            "Um administrador devolve pagamentos, responde disputas e cuida das chaves. Só um proprietário convida pessoas e muda funções. A página {} mostra quem são.", "An administrator refunds payments, answers disputes and manages keys. Only an owner invites people and changes roles. The page {} shows who they are.", "Un administrador devuelve pagos, responde disputas y gestiona las claves. Solo un dueño invita personas y cambia roles. La página {} muestra quiénes son.", w::TEAM;
        } ["/dashboard/team" w::TEAM]

        "developer" "Quem programou a sua loja", "The developer of your shop", "Quien programó su tienda" {
            "Se o painel mostra a venda paga e o seu site não, ou se o {} avisa que a entrega ao seu sistema falha, a causa está entre o site e o serviço. A página {} e o guia ajudam a achá-la.", "If the dashboard shows a sale as paid and your site does not, or if {} says that the delivery to your system fails, the cause is between the site and the service. The page {} and the guide help to find it.", "Si el panel muestra la venta pagada y su sitio no, o si {} avisa que la entrega a su sistema falla, la causa está entre el sitio y el servicio. La página {} y la guía ayudan a encontrarla.", w::HOME, w::WEBHOOKS;
        } ["/dashboard/webhooks" w::WEBHOOKS, "/docs" w::GUIDE, "/docs/pt-quickstart" GUIDE_IN_PORTUGUESE]

        "bank" "O banco do cliente", "The customer's bank", "El banco del cliente" {
            "Só ele sabe por que um pagamento foi recusado no app, ou quando uma devolução já concluída aparece na conta ou na fatura.", "Only it knows why its app declined a payment, or when a refund that is completed appears in the account or on the bill.", "Solo él sabe por qué su app rechazó un pago, o cuándo una devolución ya concluida aparece en la cuenta o en el resumen.";
        } []

        "customer" "E o seu cliente?", "And your customer?", "¿Y su cliente?" {
            "Ele fala com você. A página de pagamento mostra o e-mail e o telefone de atendimento que estão em {}.", "Customers ask you. The checkout page shows the support e-mail and phone that are set at {}.", "Él habla con usted. La página de pago muestra el correo y el teléfono de atención que están en {}.", w::SETTINGS;
        } ["/dashboard/settings" w::SETTINGS]
    }

    fn terms() {
        "charge" "Cobrança", "Charge", "Cobro" {
            "O pedido de um valor a um cliente. Tem um link, um prazo e uma situação.", "A request for an amount to a customer. It has a link, an expiry and a state.", "El pedido de un importe a un cliente. Tiene un enlace, un plazo y un estado.";
        } []
        "pix" "Pix, copia e cola", "Pix, copy and paste", "Pix, copiar y pegar" {
            "O pagamento instantâneo do Banco Central do Brasil. No app do banco, o cliente lê o QR code ou cola o mesmo código como texto.", "The instant payment of Brazil's Central Bank. In a bank's app, the customer scans the QR code or pastes the same code as text.", "El pago instantáneo del Banco Central de Brasil. En la app del banco, el cliente lee el código QR o pega el mismo código como texto.";
        } []
        "txid" "txid (identificador)", "txid (identifier)", "txid (identificador)" {
            "O código que liga um Pix à sua cobrança. Alguns comprovantes o chamam de identificador.", "The code that connects a Pix with its charge. Some banks call it “identificador”.", "El código que vincula un Pix con su cobro. Algunos comprobantes lo llaman identificador.";
        } []
        "e2e" "End-to-end id", "End-to-end id", "End-to-end id" {
            "O número que cada Pix recebe quando é pago. Começa com E, está no comprovante do cliente e acha o pagamento na busca.", "The number that each Pix gets when it is paid. It starts with E, is in the customer's proof of payment, and finds the payment in the search.", "El número que cada Pix recibe cuando se paga. Empieza con E, está en el comprobante del cliente y encuentra el pago en la búsqueda.";
        } []
        "return" "Devolução e estorno", "Refund", "Devolución y reembolso" {
            "Um Pix é devolvido para a conta que pagou; uma compra no cartão é estornada no cartão. Nos dois casos, o valor sai do seu saldo.", "A Pix goes back to the account that paid, a card payment to the card. The amount leaves your balance in both cases.", "Un Pix se devuelve a la cuenta que pagó; una compra con tarjeta se reembolsa en la tarjeta. En ambos casos, el importe sale de su saldo.";
        } []
        "case" "Disputa", "Dispute", "Disputa" {
            "O pagador pede o dinheiro de volta pelo banco ou pelo emissor do cartão, e não a você.", "The payer claims the money back from the bank or the card's issuer, not from you.", "El pagador pide el dinero de vuelta al banco o al emisor de la tarjeta, y no a usted.";
        } []
        "med" "MED", "MED", "MED" {
            "Mecanismo Especial de Devolução: a disputa de um Pix, aberta pelo banco do pagador, por exemplo por suspeita de golpe.", "Mecanismo Especial de Devolução: the dispute of a Pix, opened by the payer's bank, for example because of a reported fraud.", "Mecanismo Especial de Devolução: la disputa de un Pix, abierta por el banco del pagador, por ejemplo por sospecha de estafa.";
        } []
        "chargeback" "Chargeback", "Chargeback", "Contracargo" {
            "A disputa de uma compra no cartão.", "The dispute of a card payment.", "La disputa de una compra con tarjeta.";
        } []
        "available" "Saldo disponível", "Available balance", "Saldo disponible" {
            "O que já pode ser repassado a você ou devolvido a clientes.", "What can be paid out to you or refunded to customers.", "Lo que ya puede transferirse a usted o devolverse a clientes.";
        } []
        "pending" "A liberar", "Pending", "Por liberar" {
            "Vendas pagas que esperam o dia de entrar no saldo disponível.", "Paid sales that wait for the day on which they become available.", "Ventas pagadas que esperan el día de entrar en el saldo disponible.";
        } []
        "retained" "Retido", "Retained", "Retenido" {
            "O que está reservado para disputas em andamento.", "What is held for disputes in progress.", "Lo que está reservado para disputas en curso.";
        } []
        "payout" "Repasse", "Payout", "Retiro" {
            "A transferência do saldo disponível para a sua conta bancária.", "The transfer of available balance to your bank account.", "La transferencia del saldo disponible a su cuenta bancaria.";
        } []
        "fee" "Tarifa ou taxa", "Fee", "Comisión" {
            "O preço do serviço, descontado quando a cobrança é paga. O que sobra é o líquido.", "The price of the service, deducted when a charge is paid. What is left is the net amount.", "El precio del servicio, descontado cuando el cobro se paga. Lo que queda es el neto.";
        } []
        "receipt" "Comprovante de pagamento", "Payment receipt", "Comprobante de pago" {
            "A página de uma cobrança paga, para imprimir ou mostrar ao cliente. Não é nota fiscal.", "The page of a paid charge, to print or to show to the customer. It is not a tax invoice.", "La página de un cobro pagado, para imprimir o mostrar al cliente. No es una factura fiscal.";
        } []
        "review" "Em análise", "In review", "En revisión" {
            "O pagamento ainda não é certo: falta saber quem pagou, o titular confirmar a compra no cartão ou a rede confirmar a criptomoeda.", "The payment is not certain yet: the payer is unknown, or the card's holder or the network of the cryptocurrency has not confirmed it.", "El pago aún no es seguro: falta saber quién pagó, que el titular confirme la compra con tarjeta o que la red confirme la criptomoneda.";
        } []
        "webhook" "Webhook e endpoint", "Webhook and endpoint", "Webhook y endpoint" {
            "O aviso automático que o serviço envia ao sistema da loja, e o endereço que o recebe. Quem só usa o painel não precisa deles.", "The automatic message of the service to the shop's system, and the address that receives it. You do not need them if you only use the dashboard.", "El aviso automático del servicio al sistema de la tienda, y la dirección que lo recibe. Quien solo usa el panel no los necesita.";
        } []
        "key" "Chave da API", "API key", "Clave de la API" {
            "A senha do sistema da loja neste serviço. Dá acesso total à conta e não é a sua chave Pix. Não a envie a ninguém por mensagem.", "The password of the shop's system at this service. It gives full access to the account, and is not your Pix key. Do not send it in a message.", "La contraseña del sistema de la tienda en este servicio. Da acceso total a la cuenta y no es su clave Pix. No la envíe por mensaje.";
        } []
        "mode" "Modo teste e produção", "Test mode and live mode", "Modo prueba y producción" {
            "No modo teste, você experimenta tudo com dados separados, e nenhum dinheiro é movimentado. Em produção, o dinheiro é de verdade. O alto da página diz qual é o modo e tem o menu que o troca.", "In test mode you try everything with separate data, and no money moves. In live mode the money is real. The top of the page names the mode and has the menu that switches it.", "En el modo prueba, usted prueba todo con datos separados y no se mueve dinero. En producción, el dinero es real. La parte de arriba de la página dice cuál es el modo y tiene el menú que lo cambia.";
        } []
        "factor" "Verificação em duas etapas", "Second factor", "Verificación en dos pasos" {
            "Além da senha, o login pede um código do celular. Protege a conta mesmo que alguém descubra a senha.", "Beside the password, the log-in asks for a code of your phone. It protects the account even if the password is known.", "Además de la contraseña, el inicio de sesión pide un código del celular. Protege la cuenta aunque alguien descubra la contraseña.";
        } []
    }
}

pub(crate) async fn show(visitor: Visitor) -> Result<Response> {
    let (page, ()) = visitor.load(async |_| Ok(())).await?;
    Ok(page.render(page.say(w::HELP), &content(page.language)))
}

fn content(language: Language) -> Markup {
    let say = |word| language.say(word);
    let (questions, contacts) = (questions(), contacts());
    html! {
        h1 { (say(w::HELP)) }
        p { (say(LEAD)) }
        p { a href="#contacts" { (say(CONTACTS)) } " · " a href="#terms" { (say(TERMS)) } }
        div.two {
            section.card {
                h2 #questions { (say(QUESTIONS)) }
                ol.toc {
                    @for entry in &questions { li { a href={ "#" (entry.id) } { (say(entry.title)) } } }
                }
                (answers(language, &questions))
            }
            div {
                section.card { h2 #contacts { (say(CONTACTS)) } (answers(language, &contacts)) }
                section.card {
                    h2 #terms { (say(TERMS)) }
                    @for Entry { id, title, texts, .. } in &terms() {
                        @for text in texts { p id=(id) { strong { (say(*title)) } ": " (text.render(language)) } }
                    }
                }
            }
        }
    }
}

fn answers(language: Language, entries: &[Entry]) -> Markup {
    html! {
        @for Entry { id, title, texts, links } in entries {
            h3 id=(id) { (language.say(*title)) }
            @for text in texts { p { (text.render(language)) } }
            @if !links.is_empty() {
                p.sm {
                    @for (index, (path, word)) in links.iter().enumerate() {
                        @if index > 0 { " · " }
                        a href=(path) { (language.say(*word)) }
                    }
                }
            }
        }
    }
}

impl Text {
    fn render(&self, language: Language) -> Markup {
        let mut parts = language.say(self.words).split("{}");
        let first = parts.next().unwrap_or_default();
        html! {
            (first)
            @for (label, part) in self.labels.iter().zip(parts) { strong { (language.say(*label)) } (part) }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn entries() -> impl Iterator<Item = Entry> {
        questions().into_iter().chain(contacts()).chain(terms())
    }

    #[test]
    fn each_text_has_a_mark_for_each_label_in_all_languages() {
        for Entry { id, texts, .. } in entries() {
            for Text { words, labels } in texts {
                for language in Language::ALL {
                    assert_eq!(language.say(words).matches("{}").count(), labels.len(), "{id} {language:?}");
                }
            }
        }
    }

    #[test]
    fn the_page_is_small_and_each_link_within_it_has_one_target() {
        assert_eq!(questions().len(), 12);
        for language in Language::ALL {
            let page = content(language).into_string();
            assert!(page.len() < 17 * 1024, "{language:?}: {} bytes", page.len());
            assert!(!page.contains("{}"), "{page}");
            let ids: Vec<&str> =
                page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
            let unique: BTreeSet<&str> = ids.iter().copied().collect();
            assert_eq!(ids.len(), unique.len(), "{ids:?}");
            for link in page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(unique.contains(link), "{link}");
            }
        }
    }
}
