// What a member of a shop does, by keyboard alone, with and without JavaScript. See .ci/browser.

// The name of the focused control, as a screen reader says it.
const focusedName = () => {
  const control = document.activeElement;
  const label = control.labels?.[0]?.innerText ?? control.getAttribute("aria-label") ?? (control.innerText || control.value);
  return (label ?? "").replace(/\s+/g, " ").trim();
};

class Keyboard {
  constructor(page, baseUrl) {
    Object.assign(this, { page, baseUrl });
    page.on("dialog", (dialog) => dialog.accept());
  }

  async open(route) {
    await this.page.goto(`${this.baseUrl}${route}`, { waitUntil: "load" });
  }

  // Presses the tabulator until the control with this name has the focus.
  async reach(name) {
    const passed = [];
    for (let count = 0; count < 150; count += 1) {
      await this.page.keyboard.press("Tab");
      const focused = await this.page.evaluate(focusedName);
      if (focused === name || focused.startsWith(`${name} `)) return;
      passed.push(focused);
    }
    throw new Error(`${this.page.url()}: the keyboard does not reach "${name}", only: ${[...new Set(passed)].join(" | ")}`);
  }

  async type(name, text) {
    await this.reach(name);
    await this.page.keyboard.down("Control");
    await this.page.keyboard.press("a");
    await this.page.keyboard.up("Control");
    await this.page.keyboard.type(text);
  }

  // Activates a link or a button, and waits for the page it leads to.
  async follow(name) {
    await this.reach(name);
    await this.enter();
  }

  async enter() {
    await Promise.all([this.page.waitForNavigation({ waitUntil: "load" }), this.page.keyboard.press("Enter")]);
  }

  // Opens a fold.
  async unfold(name) {
    await this.reach(name);
    await this.page.keyboard.press("Enter");
  }

  async expect(...texts) {
    const shown = await this.page.evaluate(() => document.body.innerText);
    for (const text of texts) {
      if (!shown.includes(text)) throw new Error(`${this.page.url()}: no "${text}" in: ${shown.slice(0, 1500)}`);
    }
  }
}

async function journey(browser, shop, hasScript) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await page.setJavaScriptEnabled(hasScript);
  await page.setExtraHTTPHeaders({ "Accept-Language": "pt-BR" });
  const user = new Keyboard(page, shop.ready.base_url);

  const logIn = async () => {
    await user.open("/dashboard");
    await user.type("E-mail", shop.ready.dashboard.email);
    await user.type("Senha", shop.ready.dashboard.password);
    await user.enter();
    await user.expect("Modo teste");
  };
  const refundPart = async () => {
    await user.open(`/dashboard/charges/${shop.charge.id}`);
    await user.unfold("Devolver");
    await user.type("Valor", "10,00");
    await user.follow("Devolver");
    await user.expect("10,00");
  };
  const resend = async () => {
    await user.open(`/dashboard/deliveries/${shop.delivery.id}`);
    await user.follow("Enviar de novo");
  };
  const rotate = async () => {
    await user.open(`/dashboard/webhooks/${shop.endpoint.id}`);
    await user.follow("Trocar");
    await user.expect("Segredo do endpoint", "Já guardei");
  };
  const steps = { logIn, refundPart, resend, rotate };
  for (const [name, step] of Object.entries(steps)) {
    try {
      await step();
    } catch (error) {
      throw new Error(`${name}: ${error.message}`);
    }
  }
  await context.close();
}

module.exports = { journey };
