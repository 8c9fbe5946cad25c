use super::*;

const SHOP: &str = r#"<!doctype html><html lang="pt-BR"><head><title>Loja</title></head><body>
        <h1>Cobranças &amp; mais</h1><p hidden>escondido</p><script>if (1 < 2) {}</script>
        <a href="/a?b=1&amp;c=2"><b>Ver</b> tudo</a> <a>sem destino</a>
        <table><caption>Pagas</caption><tr><th>Valor</th><th>Estado</th></tr>
        <tr><td>R$ <span>1</span>,00</td><td>Paga</td></tr></table>
        <dl><dt>Hoje</dt><dd>1 entrega</dd><dt>Ontem</dt><dd>2 entregas</dd></dl>
        <form action="a/b" method="post"><input type="hidden" name="key" value="k&quot;1">
        <label for="n">Nome</label><input id="n" name="name" value="Maria" aria-invalid="true" aria-describedby="e"><p id="e">Curto.</p>
        <label><input type="checkbox" name="box" value="1" checked> Um</label>
        <label><input type="checkbox" name="box" value="2"> Dois</label>
        <select name="role" aria-label="Papel"><option value="M" selected>Membro</option><option value="D">Dono</option></select>
        <label>Texto<textarea name="text">
duas
linhas</textarea></label>
        <button name="draft" value="1">Guardar</button><button>Enviar</button><button disabled>Apagar</button></form>
        <form id="f" action="a/c"><input name="text" value="t"></form><button form="f" formaction="a/d">Tirar</button>
        </body></html>"#;

#[test]
fn parts_are_found_by_role_and_name() {
    let page = Page::read(SHOP);
    assert_eq!((page.language(), page.names(Role::Heading)), ("pt-BR", vec!["Cobranças & mais".to_owned()]));
    assert_eq!(page.get(Role::Link, "Ver tudo").target(), "/a?b=1&c=2");
    assert!(page.all(Role::Link).len() == 1 && !page.contains("escondido") && page.title() == "Loja");
    let states = page.get(Role::Table, "Pagas").column("Valor");
    assert_eq!(states.iter().map(Page::text).collect::<Vec<_>>(), ["R$ 1,00"]);
    assert_eq!(page.values("Ontem"), ["2 entregas"]);
    let name = page.get(Role::Field, "Nome");
    assert_eq!((name.is_invalid(), name.description().as_deref()), (true, Some("Curto.")));
    assert_eq!(page.get(Role::Field, "Texto").value(), "duas\nlinhas");
}

#[test]
fn a_form_is_sent_with_its_hidden_fields_and_the_pressed_button() {
    let page = Page::read(SHOP);
    let text =
        |sent: Sent| sent.fields.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
    let as_drawn = page.press("Enviar", &[]);
    assert_eq!(as_drawn.action, "a/b");
    assert_eq!(text(as_drawn), ["key=k\"1", "name=Maria", "box=1", "role=M", "text=duas\nlinhas"]);
    let typed = [("Nome", "Ana"), ("Um", ""), ("Dois", "on"), ("Papel", "Dono"), ("Texto", "")];
    let typed = text(page.press("Guardar", &typed));
    assert_eq!(typed, ["key=k\"1", "name=Ana", "box=2", "role=D", "text=", "draft=1"]);
    assert!(page.form("Enviar").get(Role::Button, "Apagar").is_disabled());
    let outside = page.press("Tirar", &[]);
    assert_eq!((&*outside.action, outside.pairs()), ("a/d", vec![("text", "t")]));
}

#[test]
#[should_panic(
    expected = "0 are the Field \"Sobrenome\" of [\"Nome\", \"Um\", \"Dois\", \"Papel\", \"Texto\"]"
)]
fn what_a_page_does_not_have_fails_the_test() {
    Page::read(SHOP).press("Enviar", &[("Sobrenome", "Silva")]);
}

#[test]
#[should_panic(expected = "tags are not balanced")]
fn a_page_whose_tags_are_not_balanced_fails_the_test() {
    Page::read("<p><b>a</p></b>");
}
