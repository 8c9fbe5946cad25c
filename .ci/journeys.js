// What a member of a shop does, by keyboard alone, with and without JavaScript. See .ci/browser.

const crypto = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");

// The code of RFC 6238 for a seed in base 32. `step`: 1 for the code after the present one.
function totp(seed, step) {
  const bits = [...seed.replace(/[\s=]/g, "")].map((digit) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".indexOf(digit).toString(2).padStart(5, "0"));
  const bytes = bits.join("").match(/.{8}/g).map((byte) => parseInt(byte, 2));
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(Math.floor(Date.now() / 30_000) + step));
  const hash = crypto.createHmac("sha1", Buffer.from(bytes)).update(counter).digest();
  const offset = hash.at(-1) & 15;
  return String((hash.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, "0");
}

// The name of the focused control, as a screen reader says it.
const focusedName = () => {
  const control = document.activeElement;
  const label = control.labels?.[0]?.innerText ?? control.getAttribute("aria-label") ?? (control.innerText || control.value);
  return (label ?? "").replace(/\s+/g, " ").trim();
};

class Keyboard {
  constructor(page, { ready, check }) {
    Object.assign(this, { page, check, baseUrl: ready.base_url });
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
      if (focused.startsWith(name)) return;
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
    await this.check(this.page);
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

// `shop`: what the service printed (`ready`, `log`), a directory for files (`work`), `until`, the objects, and `check`, to
// which each page is shown that a form or link led to.
async function journey(browser, shop, hasScript) {
  const open = async () => {
    const context = await browser.createBrowserContext();
    const page = await context.newPage();
    await page.setJavaScriptEnabled(hasScript);
    await page.setExtraHTTPHeaders({ "Accept-Language": "pt-BR" });
    return new Keyboard(page, shop);
  };
  const user = await open();
  const logIn = async (who, email, password) => {
    await who.open("/dashboard");
    await who.type("E-mail", email);
    await who.type("Senha", password);
    await who.enter();
  };
  // Without a mail server, the service logs the texts of mails.
  const links = () => fs.readFileSync(shop.log, "utf8").match(/\/dashboard\/invite\/[A-Za-z0-9_-]{44}/g) ?? [];
  let sentBefore = 0;
  const steps = {
    logIn: async () => {
      await logIn(user, shop.ready.dashboard.email, shop.ready.dashboard.password);
      await user.expect("Modo teste");
    },
    findOrder: async () => {
      await user.type("Buscar (tecla /)", shop.order);
      await user.enter();
      await user.expect(shop.charge.id);
    },
    refundPart: async () => {
      await user.unfold("Devolver");
      await user.type("Valor", "10,00");
      await user.follow("Devolver");
      await user.expect("Devolver R$ 10,00 a ");
      await user.follow("Confirmar");
      await user.expect("o dinheiro volta a quem pagou", "-R$ 10,00");
    },
    resend: async () => {
      await user.open(`/dashboard/deliveries/${shop.delivery.id}`);
      await user.follow("Enviar de novo");
      if (user.page.url().includes(shop.delivery.id)) throw new Error("no page of a new delivery");
    },
    rotate: async () => {
      await user.open(`/dashboard/webhooks/${shop.endpoint.id}`);
      await user.follow("Trocar segredo");
      // The script asks in a dialog. Without it, a page asks.
      if (!hasScript) await user.follow("Confirmar");
      await user.expect("Segredo do endpoint", "Já guardei");
    },
    appeal: async () => {
      await user.open(`/dashboard/disputes/${shop.medCase.id}`);
      if (hasScript) {
        const file = path.join(shop.work, "nota-fiscal.pdf");
        fs.writeFileSync(file, "%PDF-1.4\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n");
        await user.reach("Anexar provas");
        await (await user.page.$("input[type=file]")).uploadFile(file);
        await shop.until("evidence", async () => (await user.page.evaluate(() => document.body.innerText)).includes("nota-fiscal.pdf"));
        await user.open(`/dashboard/disputes/${shop.medCase.id}`);
      } else {
        await user.expect("Anexar exige JavaScript");
      }
      await user.type("Conte o que foi vendido", "Camiseta azul, entregue em 20/11 na portaria, com assinatura.");
      await user.follow("Contestar");
      await user.follow("Confirmar");
      await user.expect("Contestada");
    },
    invite: async () => {
      sentBefore = links().length;
      await user.open("/dashboard/team");
      await user.type("E-mail", shop.invited);
      await user.follow("Convidar");
      await user.expect(shop.invited);
    },
    join: async () => {
      const link = await shop.until("mail", async () => {
        const sent = links();
        return sent.length > sentBefore && sent.at(-1);
      });
      const member = await open();
      await member.open(link);
      await member.type("Nova senha", "cavalo bateria grampo");
      await member.follow("Salvar senha e entrar");
      await member.open("/dashboard/security");
      await member.follow("Mostrar o QR code");
      const seed = await member.page.$eval("main code", (code) => code.innerText);
      await member.type("Código de 6 dígitos", totp(seed, 0));
      await member.follow("Ativar");
      await member.expect("Códigos de recuperação");
      await member.unfold(`${shop.invited} · Membro`);
      await member.follow("Sair");
      await logIn(member, shop.invited, "cavalo bateria grampo");
      await member.type("Código do app autenticador", totp(seed, 1));
      await member.enter();
      await member.expect(`${shop.invited} · Membro`);
      await member.page.browserContext().close();
    },
  };
  for (const [name, step] of Object.entries(steps)) {
    try {
      await step();
    } catch (error) {
      throw new Error(`${name}: ${error.message}`);
    }
  }
  await user.page.browserContext().close();
}

module.exports = { journey };
