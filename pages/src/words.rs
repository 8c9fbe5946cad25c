//! The words that more than one function's pages show.

use domain::payment_method::PaymentMethod;
use domain::pix_key::PixKeyKind;
use shared::account::Role;

use crate::Word;

crate::words! { pub,
    ACTOR = "Quem", "Who", "Quién";
    DASHBOARD = "Painel", "Dashboard", "Panel";
    DAY = "Dia", "Day", "Día";
    END_TO_END_ID = "End-to-end id", "End-to-end id", "End-to-end id";
    FORGOTTEN = "Esqueci a senha", "I forgot my password", "Olvidé la contraseña";
    PAID_FROM = "Paga de", "Paid from", "Pagado desde";
    PAID_TO = "Paga até", "Paid to", "Pagado hasta";
    FROM = "De", "From", "Desde";
    KIND = "Tipo", "Type", "Tipo";
    LABEL = "Nome", "Label", "Nombre";
    LOCAL_LOG_IN = "Entrar com um clique", "Log in with one click", "Entrar con un clic";
    LOCAL_LOG_IN_MEANS = "Este serviço roda neste computador. Entre como proprietário da Loja Exemplo.", "This service runs on this computer. Log in as the owner of Loja Exemplo.", "Este servicio corre en este equipo. Entre como dueño de Loja Exemplo.";
    LOGO = "Logo", "Logo", "Logo";
    OBJECT = "Objeto", "Object", "Objeto";
    PASSWORD = "Senha", "Password", "Contraseña";
    PHONE = "Telefone", "Phone", "Teléfono";
    LINK_AMOUNT_MEANS = "Deixe vazio para quem paga escolher o valor, entre o mínimo e o máximo abaixo.", "Leave it empty to let the payer choose the amount, between the smallest and the largest below.", "Déjelo vacío para que quien paga elija el importe, entre el mínimo y el máximo de abajo.";
    MIN_AMOUNT = "Valor mínimo", "Smallest amount", "Importe mínimo";
    MAX_AMOUNT = "Valor máximo", "Largest amount", "Importe máximo";
    METHODS_OF_LINK = "Formas de pagamento", "Payment methods", "Medios de pago";
    LINK_ASKS = "Perguntar a quem paga", "Ask the payer", "Preguntar a quien paga";
    SUCCESS_URL = "Página depois do pagamento (opcional)", "Page after the payment (optional)", "Página después del pago (opcional)";
    CHANGE_LINK = "Alterar o link", "Change the link", "Cambiar el enlace";
    MAX_PAYMENTS = "Máximo de pagamentos", "Most payments", "Máximo de pagos";
    MAX_PAYMENTS_MEANS = "Vazio: sem limite. Com limite, cada cobrança vale 15 minutos, e boleto não serve.", "Empty: no limit. With a limit, each charge lives 15 minutes, and boletos can't be used.", "Vacío: sin límite. Con límite, cada cobro vale 15 minutos, y el boleto no sirve.";
    ENDS_ON = "Encerra no início de", "Ends at the start of", "Termina al inicio de";
    MAKE_LINK = "Criar link", "Make the link", "Crear el enlace";
    NEW_LINK = "Novo link", "New link", "Nuevo enlace";
    PAYMENT_LINKS = "Links", "Links", "Enlaces";
    STREET = "Endereço", "Address", "Dirección";
    PAYER_CITY = "Cidade", "City", "Ciudad";
    PAYER_STATE = "UF", "State", "Estado";
    POSTAL_CODE = "CEP", "Postal code", "Código postal";
    PAYER_NAME = "Nome completo", "Full name", "Nombre completo";
    TAX_ID = "CPF ou CNPJ", "Tax id", "Documento fiscal";
    BETWEEN = "De {} a {}", "From {} to {}", "De {} a {}";
    PAY_LINK = "Pagamento", "Payment", "Pago";
    PAY_NOW = "Pagar", "Pay", "Pagar";
    LINK_ENDED = "Este link não está disponível", "This link is not available", "Este enlace no está disponible";
    LINK_ENDED_MEANS = "Ele terminou ou foi desativado. Peça outro à loja.", "It has ended or was deactivated. Ask the shop for another.", "Terminó o fue desactivado. Pida otro a la tienda.";
    LINK_FULL = "Todos os pagamentos deste link já foram feitos.", "All payments of this link have been made.", "Todos los pagos de este enlace ya se hicieron.";
    LINK_TAKEN = "Outras pessoas estão pagando agora. Tente de novo em alguns minutos: uma vaga não paga volta em cerca de 15 minutos.", "Other people are paying now. Retry in some minutes: a place that is not paid is free again after about 15 minutes.", "Otras personas están pagando ahora. Inténtelo en unos minutos: un lugar no pagado se libera en unos 15 minutos.";
    LINK_TWO_OPEN = "Você já abriu dois pagamentos deste link. Conclua um deles, ou espere 15 minutos.", "You have opened two payments of this link. Complete one, or wait 15 minutes.", "Ya abrió dos pagos de este enlace. Complete uno, o espere 15 minutos.";
    ROUTE = "Rota", "Route", "Ruta";
    TO = "Até", "To", "Hasta";
    TXID = "txid", "txid", "txid";
    CONFIRM_TITLE = "Confirme que é você", "Confirm that it is you", "Confirme que es usted";
    CONFIRM_MEANS = "O seu login tem mais de 10 minutos. Nada foi alterado: depois de confirmar, repita a ação.", "Your log-in is older than 10 minutes. Nothing was changed: after you confirm, repeat the action.", "Su inicio de sesión tiene más de 10 minutos. No se cambió nada: después de confirmar, repita la acción.";
    CONFIRM = "Confirmar", "Confirm", "Confirmar";
    CODE = "Código do app autenticador, ou código de recuperação", "Code of the authenticator app, or recovery code", "Código de la app de autenticación, o código de recuperación";
    SECOND_FACTOR = "Verificação em duas etapas", "Second factor", "Verificación en dos pasos";
    CONFIRM_GOES_ON = "O seu login tem mais de 10 minutos. Depois de confirmar, a ação continua.", "Your log-in is older than 10 minutes. After you confirm, the action goes on.", "Su inicio de sesión tiene más de 10 minutos. Después de confirmar, la acción continúa.";
    GO_ON = "Continuar", "Go on", "Continuar";
    SEND = "Enviar", "Send", "Enviar";
    RETRY = "Tentar de novo", "Try again", "Intentar de nuevo";
    TEXT_IS_KEPT = "O que você digitou está nesta página e volta depois de entrar.", "What you typed is in this page, and is back after the log-in.", "Lo que escribió está en esta página y vuelve después de entrar.";
    FILLED_IN = "Confira e envie", "Check and send", "Revise y envíe";
    FILLED_IN_MEANS = "A sua sessão tinha terminado, e nada foi feito ainda. Isto é o que você digitou.", "Your session had ended, and nothing was done yet. This is what you had typed.", "Su sesión había terminado y aún no se hizo nada. Esto es lo que escribió.";
    SESSION_ENDED = "Sua sessão terminou. O texto fica aqui: ao enviar, você entra de novo e ele volta.", "Your session has ended. The text stays here: when you send it, you log in again and it is back.", "Su sesión terminó. El texto queda aquí: al enviar, entra de nuevo y vuelve.";
    SKIP = "Ir para o conteúdo", "Skip to the content", "Ir al contenido";
    MENU = "Menu", "Menu", "Menú";
    SEARCH = "Buscar", "Search", "Buscar";
    SEARCH_KEY = "Buscar (tecla /)", "Search (key /)", "Buscar (tecla /)";
    SEARCH_BY = "Pedido, nome, CPF, e-mail, id, valor", "Order, name, CPF, e-mail, id, amount", "Pedido, nombre, CPF, correo, id, importe";
    HOME = "Início", "Home", "Inicio";
    CHARGES = "Cobranças", "Charges", "Cobros";
    WALLET = "Carteira", "Wallet", "Cartera";
    REPORTS = "Relatórios", "Reports", "Informes";
    DISPUTES = "Disputas", "Disputes", "Disputas";
    WEBHOOKS = "Webhooks", "Webhooks", "Webhooks";
    DEVELOPERS = "Desenvolvedores", "Developers", "Desarrolladores";
    TEAM = "Equipe", "Team", "Equipo";
    HELP = "Ajuda", "Help", "Ayuda";
    SETTINGS = "Configurações", "Settings", "Ajustes";
    TEST_MODE = "Modo teste", "Test mode", "Modo prueba";
    TEST_MODE_MEANS = "nenhum dinheiro é movimentado", "no money moves", "no se mueve dinero";
    LIVE_MODE = "Produção", "Live mode", "Producción";
    LIVE_MODE_MEANS = "dinheiro de verdade", "real money", "dinero real";
    SHOW_LIVE = "Ver produção", "Show live mode", "Ver producción";
    SHOW_TEST = "Ver modo teste", "Show test mode", "Ver modo prueba";
    OWN_ACCESS = "Segurança e acesso", "Security and access", "Seguridad y acceso";
    PRINT = "Imprimir", "Print", "Imprimir";
    SEND_LINK_TO_CUSTOMER = "Enviar ao cliente", "Send to the customer", "Enviar al cliente";
    BY_WHATSAPP = "WhatsApp", "WhatsApp", "WhatsApp";
    AT_COUNTER = "Mostrar no balcão", "Show at the counter", "Mostrar en el mostrador";
    PAYMENT_LINK = "Link de pagamento", "Payment link", "Enlace de pago";
    NAME = "Nome", "Name", "Nombre";
    HTTP_STATUS = "Status HTTP", "HTTP status", "Estado HTTP";
    PAY_HERE = "Pague {} aqui: {}", "Pay {} here: {}", "Pague {} aquí: {}";
    QR_OF_CHARGE = "QR code Pix desta cobrança", "Pix QR code of this charge", "Código QR Pix de este cobro";
    LAST_SALES = "Últimas vendas", "Last sales", "Últimas ventas";
    EXPIRES_AFTER = "Vence em", "Expires after", "Vence en";
    USUAL_EXPIRY = "{} (padrão da conta)", "{} (usual for the account)", "{} (habitual de la cuenta)";
    MINUTES = "{} minutos", "{} minutes", "{} minutos";
    QUARTER_HOUR = "15 minutos", "15 minutes", "15 minutos";
    OPTIONAL = "opcional", "optional", "opcional";
    ONE_HOUR = "1 hora", "1 hour", "1 hora";
    ONE_DAY = "24 horas", "24 hours", "24 horas";
    LANGUAGE = "Idioma", "Language", "Idioma";
    CHOOSE = "Trocar idioma", "Change language", "Cambiar idioma";
    LOG_OUT = "Sair", "Log out", "Salir";
    LOG_IN = "Entrar", "Log in", "Entrar";
    ROLE_OWNER = "Proprietário", "Owner", "Dueño";
    NEEDS_ADMIN = "precisa de administrador", "needs an administrator", "requiere administrador";
    NEEDS_OWNER = "precisa do proprietário", "needs an owner", "requiere dueño";
    NEW_SECRET = "Segredo do endpoint", "Secret of the endpoint", "Secreto del endpoint";
    NEW_KEY = "Chave da API", "API key", "Clave de la API";
    SECRET_ONCE = "Mostrado só agora. Guarde em lugar seguro: depois não pode ser lido de novo.", "Shown only now. Store it in a safe place: it can't be read again.", "Se muestra solo ahora. Guárdelo en un lugar seguro: no podrá leerse de nuevo.";
    SECRET_STORED = "Já guardei", "I have stored it", "Ya lo guardé";
    DOCUMENT = "CPF ou CNPJ", "CPF or CNPJ", "CPF o CNPJ";
    REVEALED = "Mostrado só agora. A auditoria registra quem viu.", "Shown only now. The audit records who saw it.", "Se muestra solo ahora. La auditoría registra quién lo vio.";
    PAY_BY_CARD = "Pagar com cartão", "Pay by card", "Pagar con tarjeta";
    PAYMENT_REFUSED = "Pagamento recusado", "Payment declined", "Pago rechazado";
    BACK_TO_SHOP = "Voltar à loja", "Back to the shop", "Volver a la tienda";
    CHARGE_NOT_FOUND = "Cobrança não encontrada", "Charge not found", "Cobro no encontrado";
    CHARGE_NOT_FOUND_MEANS = "Confira se o endereço está completo ou peça um novo link à loja.", "Check that the address is complete, or ask the shop for a new link.", "Revise que la dirección esté completa o pida un nuevo enlace a la tienda.";
    PAGE_UNAVAILABLE = "Página indisponível no momento", "The page is not available at the moment", "Página no disponible por el momento";
    TURN_ON = "Ativar", "Turn on", "Activar";
    BACK = "Voltar", "Back", "Volver";
    COPY = "Copiar", "Copy", "Copiar";
    COPIED = "Copiado", "Copied", "Copiado";
    RECEIPT = "Comprovante de pagamento", "Payment receipt", "Comprobante de pago";
    TEST_RECEIPT = "Ambiente de teste: nenhum dinheiro foi movimentado.", "Test mode: no money was moved.", "Modo prueba: no se movió dinero.";
    MERCHANT = "Loja", "Shop", "Tienda";
    PAID_STAMP = "Pago", "Paid", "Pagado";
    RETURNED_IN_PART = "Devolvido em parte", "Partly refunded", "Devuelto en parte";
    SHOPS_DOCUMENT = "CNPJ da loja", "Shop's CNPJ", "CNPJ de la tienda";
    CHECKOUT_PAGE = "Página de pagamento", "Payment page", "Página de pago";
    RECEIVED_BY = "Recebido por", "Received by", "Recibido por";
    ORDER = "Pedido", "Order", "Pedido";
    PAYER = "Pagador", "Payer", "Pagador";
    PAID_ON = "Pago em", "Paid on", "Pagado el";
    METHOD = "Forma de pagamento", "Method", "Medio de pago";
    CARD = "Cartão de crédito", "Credit card", "Tarjeta de crédito";
    CRYPTO = "Criptomoeda", "Cryptocurrency", "Criptomoneda";
    TRANSACTION = "Transação", "Transaction", "Transacción";
    EMAIL = "E-mail", "E-mail", "Correo";
    AMOUNT_IN_BRL = "Valor (R$)", "Amount (R$)", "Importe (R$)";
    AMOUNT = "Valor", "Amount", "Importe";
    REASON = "Motivo", "Reason", "Motivo";
    REFUND = "Devolver", "Refund", "Devolver";
    REVERSE = "Estornar", "Refund", "Reembolsar";
    REFUNDABLE_IS = "Ainda pode devolver: {}.", "Left to refund: {}.", "Queda por devolver: {}.";
    REVERSIBLE_IS = "Ainda pode estornar: {}.", "Left to refund: {}.", "Queda por reembolsar: {}.";
    REFUND_ASK = "Devolver {} a {} ({})? O dinheiro sai do saldo e não volta.", "Refund {} to {} ({})? The money leaves the balance and does not return.", "¿Devolver {} a {} ({})? El dinero sale del saldo y no vuelve.";
    REVERSE_ASK = "Estornar {} a {} ({})? O dinheiro sai do saldo e não volta.", "Refund {} to {} ({})? The money leaves the balance and does not return.", "¿Reembolsar {} a {} ({})? El dinero sale del saldo y no vuelve.";
    THE_PAYER = "quem pagou", "the payer", "quien pagó";
    CUSTOMER = "Cliente", "Customer", "Cliente";
    NEW_CHARGE = "Nova cobrança", "New charge", "Nuevo cobro";
    CREATE = "Criar", "Create", "Crear";
    DESCRIPTION = "Descrição", "Description", "Descripción";
    REFUNDED_SUM = "Devolvido", "Refunded", "Devuelto";
    REVERSED_SUM = "Estornado", "Refunded", "Reembolsado";
    RETURNED_ON = "Devolvido em", "Refunded on", "Devuelto el";
    REVERSED_ON = "Estornado em", "Refunded on", "Reembolsado el";
    REFUNDS = "Devoluções e estornos", "Refunds", "Devoluciones y reembolsos";
    RETURNS = "Devoluções", "Refunds", "Devoluciones";
    REVERSALS = "Estornos", "Refunds", "Reembolsos";
    ROLE = "Função", "Role", "Rol";
    EVENTS = "Eventos", "Events", "Eventos";
    SHOP_NAME = "Nome da loja", "Name of the shop", "Nombre de la tienda";
    COLOR = "Cor dos botões", "Colour of the buttons", "Color de los botones";
    SUPPORT_EMAIL = "E-mail de atendimento", "Support e-mail", "Correo de atención";
    SUPPORT_PHONE = "Telefone de atendimento, como (11) 4000-1234", "Support phone, such as (11) 4000-1234", "Teléfono de atención, como (11) 4000-1234";
    SAVE = "Salvar", "Save", "Guardar";
    INVITE = "Convidar", "Invite", "Invitar";
    INVITE_MEMBER = "Convidar um membro", "Invite a member", "Invitar a un miembro";
    REGISTER = "Registrar", "Register", "Registrar";
    REGISTER_ENDPOINT = "Registrar endpoint", "Register an endpoint", "Registrar un endpoint";
    BRAND = "Marca", "Brand", "Marca";
    URL = "URL", "URL", "URL";
    RULE_URL = "Use uma URL https completa, de um servidor público, na porta 443 ou de 1024 a 65535, sem usuário, senha nem #.", "Use a complete https URL of a public server, on port 443 or 1024 to 65535, without user name, password or #.", "Use una URL https completa, de un servidor público, en el puerto 443 o de 1024 a 65535, sin usuario, contraseña ni #.";
    RULE_DOCUMENT = "Use um CPF ou CNPJ válido.", "Use a valid CPF or CNPJ.", "Use un CPF o CNPJ válido.";
    PAYOUT_KEY = "Chave Pix para repasses", "Pix key for payouts", "Clave Pix para retiros";
    PIX_KEY = "Chave Pix", "Pix key", "Clave Pix";
    REGISTER_KEY = "Registrar chave", "Register the key", "Registrar la clave";
    REQUEST_PAYOUT = "Pedir repasse", "Request a payout", "Pedir retiro";
    PAYOUT_ASK = "Pedir o repasse de {} para a chave Pix {}? O valor sai do saldo agora.", "Request a payout of {} to the Pix key {}? The amount leaves the balance now.", "¿Pedir un retiro de {} a la clave Pix {}? El importe sale del saldo ahora.";
    RULE_PIX_KEY = "Use uma chave válida do tipo escolhido. Um celular começa com +55.", "Use a valid key of the chosen type. A phone begins with +55.", "Use una clave válida del tipo elegido. Un celular empieza con +55.";
    RULE_EVENTS = "Escolha ao menos um evento.", "Choose at least one event.", "Elija al menos un evento.";
    RULE_COLOR = "Use uma cor como #0f6b5c.", "Use a colour such as #0f6b5c.", "Use un color como #0f6b5c.";
    RULE_PHONE = "Use de 3 a 15 dígitos, como (11) 4000-1234.", "Use 3 to 15 digits, such as (11) 4000-1234.", "Use de 3 a 15 dígitos, como (11) 4000-1234.";
    CHANGE_ENDPOINT = "Mudar URL e eventos", "Change URL and events", "Cambiar URL y eventos";
    SHOPS_EMAIL = "E-mail da loja", "E-mail of the shop", "Correo de la tienda";
    SHOPS_PHONE = "Telefone da loja", "Phone of the shop", "Teléfono de la tienda";
    ZONE = "(horário de Brasília)", "(Brasília time)", "(hora de Brasilia)";
    AS_TABLE = "Ver como tabela", "Show as a table", "Ver como tabla";
    REQUEST = "Requisição", "Request", "Solicitud";
    TO_HOME = "Voltar ao início", "Back to the home page", "Volver al inicio";
    ERROR_NOT_FOUND = "Não encontrado", "Not found", "No encontrado";
    ERROR_FORBIDDEN = "Não permitido", "Not permitted", "No permitido";
    ERROR_CONFLICT = "A página mudou", "The page has changed", "La página cambió";
    ERROR_TOO_MANY = "Requisições demais", "Too many requests", "Demasiadas solicitudes";
    ERROR_INVALID = "Requisição inválida", "Invalid request", "Solicitud no válida";
    ERROR_UNAVAILABLE = "Indisponível no momento", "Unavailable at the moment", "No disponible por el momento";
}

crate::translate! {
    pub fn of_role(Role) {
        Role::Owner = "Proprietário", "Owner", "Dueño";
        Role::Admin = "Administrador", "Administrator", "Administrador";
        Role::Member = "Membro", "Member", "Miembro";
        Role::Viewer = "Contador (só leitura)", "Accountant (read only)", "Contador (solo lectura)";
    }
    pub fn of_key_kind(PixKeyKind) {
        PixKeyKind::Cpf = "CPF", "CPF", "CPF";
        PixKeyKind::Cnpj = "CNPJ", "CNPJ", "CNPJ";
        PixKeyKind::Email = "E-mail", "E-mail", "Correo";
        PixKeyKind::Phone = "Celular", "Phone", "Celular";
        PixKeyKind::Random = "Chave aleatória", "Random key", "Clave aleatoria";
    }
}

/// The other methods have one name in all languages.
pub fn of_method(method: PaymentMethod) -> Word {
    let name = method.facts().name;
    match method {
        PaymentMethod::CreditCard => CARD,
        PaymentMethod::Crypto => CRYPTO,
        PaymentMethod::Pix | PaymentMethod::Boleto | PaymentMethod::Mbway | PaymentMethod::Multibanco => {
            Word { pt: name, en: name, es: name }
        }
    }
}

crate::translate! {
    /// What an error's code means for the user. The list of codes is closed: `shared::http::Problem`, and those of forms
    /// that the API does not have.
    pub fn of_code(&str) {
        "invalid_amount" = "O valor não é válido. Use, por exemplo, 129,90, com no máximo as casas decimais da moeda.", "The amount is not valid. Use, for example, 129.90, with at most the decimals of the currency.", "El importe no es válido. Use, por ejemplo, 129,90, con no más decimales que los de la moneda.";
        "text_too_long" = "O texto é longo demais. A busca aceita até 200 caracteres.", "The text is too long. The search accepts up to 200 characters.", "El texto es demasiado largo. La búsqueda acepta hasta 200 caracteres.";
        "unauthorized" = "O e-mail ou a senha está errado.", "The e-mail address or the password is wrong.", "El correo o la contraseña es incorrecto.";
        "wrong_proof" = "A senha ou o código está errado, ou o código já foi usado. Espere o próximo código e tente de novo.", "The password or the code is wrong, or the code was used before. Wait for the next code and retry.", "La contraseña o el código es incorrecto, o el código ya se usó. Espere el próximo código e inténtelo de nuevo.";
        "log_in_again" = "Para fazer isto, entre de novo: o seu login tem mais de 10 minutos, ou terminou. Nada foi alterado.", "To do this, log in again: your log-in is older than 10 minutes, or has ended. Nothing was changed.", "Para hacer esto, entre de nuevo: su inicio de sesión tiene más de 10 minutos, o terminó. No se cambió nada.";
        "API_KEY_ROLE_REQUIRED" = "Só um proprietário ou administrador gerencia chaves. Peça a um deles.", "Only an owner or administrator manages keys. Ask one of them.", "Solo un dueño o administrador gestiona claves. Pídaselo a uno de ellos.";
        "role_required" = "A sua função não permite isto. Peça a um proprietário ou administrador.", "Your role does not permit this. Ask an owner or administrator.", "Su rol no permite esto. Pídaselo a un dueño o administrador.";
        "invalid_logo" = "Esta imagem não serve como logo. Use PNG, JPEG ou WebP; sem JavaScript, só um PNG de até 30 KB e 1.024 pixels de lado, sem animação.", "This picture can't be the logo. Use PNG, JPEG or WebP; without JavaScript only a PNG of at most 30 KB and 1,024 pixels a side, without animation.", "Esta imagen no sirve como logo. Use PNG, JPEG o WebP; sin JavaScript, solo un PNG de hasta 30 KB y 1.024 píxeles por lado, sin animación.";
        "own_factor_first" = "Ative antes a sua própria verificação em duas etapas.", "Turn on your own second factor first.", "Active antes su propia verificación en dos pasos.";
        "session_ended" = "Sua sessão terminou. Entre de novo.", "Your session has ended. Log in again.", "Su sesión terminó. Entre de nuevo.";
        "invalid_email" = "O endereço de e-mail não é válido.", "The e-mail address is not valid.", "La dirección de correo no es válida.";
        "email_taken" = "Este endereço já tem um usuário. Um endereço pertence a uma só conta: use outro.", "This address has a user already. An address belongs to one account: use another one.", "Esta dirección ya tiene un usuario. Una dirección pertenece a una sola cuenta: use otra.";
        "last_owner" = "A conta precisa de ao menos um proprietário. Torne proprietário outro membro antes.", "The account needs at least one owner. Make another member an owner first.", "La cuenta necesita al menos un dueño. Antes haga dueño a otro miembro.";
        "too_many_invites" = "Há convites demais em aberto. Retire um antes.", "There are too many open invites. Withdraw one first.", "Hay demasiadas invitaciones abiertas. Retire una antes.";
        "weak_password" = "A senha precisa de 12 caracteres ou mais. Não pode ser o e-mail, um só caractere repetido nem uma senha comum. Uma frase serve.", "The password needs 12 characters or more. It must not be the e-mail address, one character repeated, or a common password. A sentence is fine.", "La contraseña necesita 12 caracteres o más. No puede ser el correo, un solo carácter repetido ni una contraseña común. Sirve una frase.";
        "account_suspended" = "A conta está suspensa. Fale com o suporte.", "The account is suspended. Ask your operator.", "La cuenta está suspendida. Hable con su operador.";
        "fraud.customer_velocity_exceeded" | "fraud.account_velocity_exceeded" = "Cobranças demais em pouco tempo. Tente mais tarde.", "Too many charges in a short time. Retry later.", "Demasiados cobros en poco tiempo. Inténtelo más tarde.";
        "live_key_not_allowed" = "Isto só existe no modo teste.", "This exists in test mode only.", "Esto solo existe en modo prueba.";
        "cross_site_request" = "O formulário não veio de uma página deste painel. Abra o painel e envie de novo.", "The form did not come from a page of this dashboard. Open the dashboard and send it again.", "El formulario no vino de una página de este panel. Abra el panel y envíe de nuevo.";
        "mode_changed" = "A página era do outro modo (teste ou produção). Abra-a de novo e repita.", "The page was shown in the other mode (test or live). Open it again and repeat.", "La página era del otro modo (prueba o producción). Ábrala de nuevo y repita.";
        "not_found" = "Não existe nesta conta e neste modo. Confira o endereço, ou troque entre teste e produção.", "It does not exist in this account and mode. Check the address, or switch between test and live mode.", "No existe en esta cuenta y este modo. Revise la dirección, o cambie entre prueba y producción.";
        "idempotency_key_reused" = "Este formulário já foi enviado e vale uma só vez. Confira o resultado antes de enviar outro. Um segredo ou uma chave aparece só na primeira resposta: se não apareceu, troque de novo.", "This form was sent before and counts only once. Check the result before you send another one. A secret or key is shown only in the first answer: if you did not see it, rotate it again.", "Este formulario ya se envió y vale una sola vez. Revise el resultado antes de enviar otro. Un secreto o una clave aparece solo en la primera respuesta: si no apareció, rótelo de nuevo.";
        "EVIDENCE_NOT_UPLOADED" | "EVIDENCE_SIZE_MISMATCH" = "O arquivo não chegou inteiro. Envie de novo.", "The file did not arrive complete. Upload it again.", "El archivo no llegó completo. Envíelo de nuevo.";
        "unprocessable_entity" | "cdn_required" = "Uma regra da conta ou do pagamento não permite isto agora.", "A rule of the account or of the payment does not permit this now.", "Una regla de la cuenta o del pago no permite esto ahora.";
        "recovery_in_progress" = "Uma recuperação deste endpoint ainda está em andamento. Aguarde o fim.", "A recovery of this endpoint is still running. Wait until it ends.", "Una recuperación de este endpoint aún está en curso. Espere a que termine.";
        "endpoint_inactive" = "O endpoint está desligado ou pausado. Ative-o antes.", "The endpoint is switched off or paused. Activate it first.", "El endpoint está desactivado o en pausa. Actívelo antes.";
        "payment_not_cancellable" = "Só uma cobrança ainda não paga pode ser cancelada. Uma paga pode ser devolvida ou estornada. Se o pagamento está em andamento, aguarde o resultado.", "Only an unpaid charge can be cancelled. A paid one can be refunded. If it is being paid, wait for the result.", "Solo un cobro no pagado puede cancelarse. Uno pagado puede devolverse. Si el pago está en curso, espere el resultado.";
        "payment_not_refundable" = "Só uma cobrança paga pode ser devolvida ou estornada.", "Only a paid charge can be refunded.", "Solo un cobro pagado puede devolverse.";
        "charge_disputed" = "A cobrança tem ou teve uma disputa. Ela não pode ser devolvida nem estornada.", "The charge is or was disputed. It can't be refunded.", "El cobro tiene o tuvo una disputa. No puede devolverse.";
        "payout_key_missing" = "Nenhuma chave Pix para repasses funciona agora. Registre uma, ou aguarde a análise e as 48 horas.", "No Pix key for payouts works now. Register one, or wait for the check and the 48 hours.", "Ninguna clave Pix para retiros funciona ahora. Registre una, o espere la revisión y las 48 horas.";
        "payout_requested" = "Já há um repasse pedido nesta moeda. Peça o próximo quando ele terminar.", "A payout is requested in this currency already. Request the next one when it has ended.", "Ya hay un retiro pedido en esta moneda. Pida el próximo cuando termine.";
        "refund_failed" = "Esta devolução já foi pedida e falhou; o valor voltou para o saldo. Para tentar de novo, envie este formulário.", "This refund was requested before and has failed; its amount is back in the balance. To retry, send this form.", "Esta devolución ya fue pedida y falló; el importe volvió al saldo. Para reintentar, envíe este formulario.";
        "payout_failed" = "Este repasse já foi pedido e falhou; o valor voltou para o saldo. Para tentar de novo, envie este formulário.", "This payout was requested before and has failed; its amount is back in the balance. To retry, send this form.", "Este retiro ya fue pedido y falló; el importe volvió al saldo. Para reintentar, envíe este formulario.";
        "payout_exceeds_available" = "O valor é maior do que o saldo disponível.", "The amount is higher than the available balance.", "El importe es mayor que el saldo disponible.";
        "refund_exceeds_remaining" = "O valor é maior do que o que ainda pode voltar a quem pagou.", "The amount is higher than what is left to refund.", "El importe es mayor que lo que queda por devolver.";
        "insufficient_balance" = "O saldo da carteira não cobre a devolução ou o estorno.", "The wallet does not cover the refund.", "El saldo de la cartera no cubre la devolución.";
        "REFUND_NOT_SUPPORTED" = "Esta forma de pagamento não permite esta devolução ou este estorno.", "This payment method does not support this refund.", "Este medio de pago no permite esta devolución.";
        "rate_limited" = "Requisições demais. Espere um pouco e tente de novo. Depois de muitas senhas, códigos ou pedidos de link, a espera é de até 15 minutos.", "Too many requests. Wait a little and retry. After many passwords, codes or requests for a link, the wait is up to 15 minutes.", "Demasiadas solicitudes. Espere un poco e inténtelo de nuevo. Después de muchas contraseñas, códigos o pedidos de enlace, la espera es de hasta 15 minutos.";
        "service_unavailable" | "internal_error" = "Uma parte do serviço não respondeu. Veja na página se a ação foi feita; se não, tente de novo em instantes.", "A part of the service did not answer. Look on the page whether the action was done; if not, retry in a moment.", "Una parte del servicio no respondió. Vea en la página si la acción se hizo; si no, inténtelo de nuevo.";
        _ = "Um campo não é válido. Corrija e envie de novo.", "A field is not valid. Correct it and send again.", "Un campo no es válido. Corríjalo y envíe de nuevo.";
    }
}
