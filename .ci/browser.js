// Opens pages of the service in a browser and runs axe-core. See .ci/browser.

const fs = require("node:fs");
const http = require("node:http");
const { createRequire } = require("node:module");
const path = require("node:path");

const [work, screenshots] = process.argv.slice(2);
const requireInstalled = createRequire(path.join(path.resolve(work), "browser.js"));
const axe = fs.readFileSync(requireInstalled.resolve("axe-core/axe.min.js"), "utf8");
const puppeteer = requireInstalled("puppeteer-core");
const { journey } = require("./journeys.js");

const SCREENS = {
  small: { width: 320, height: 640, deviceScaleFactor: 2, isMobile: true, hasTouch: true },
  phone: { width: 390, height: 844, deviceScaleFactor: 2, isMobile: true, hasTouch: true },
  desktop: { width: 1280, height: 900 },
};
// Uncompressed bytes of the HTML and of all that a first view loads.
const MOST_BYTES = { dashboard: [30_000, 60_000], checkout: [15_000, 30_000], pay: [15_000, 60_000], docs: [120_000, 160_000] };
// The sessions and the languages take turns over the screens and schemes, so that each pair of them is opened, and each
// page by each role in each mode and in each language. See `missingPairs`.
const SCHEMES = ["light", "dark"];
const LANGUAGES = ["pt-BR", "en", "es"];
const ROLES = ["OWNER", "ADMIN", "MEMBER"];
const MODES = ["test", "live"];
const PASSWORD = "cavalo bateria grampo";
// Edges of fields and buttons against what is behind them (WCAG 1.4.11).
const LEAST_EDGE = 3;
// Milliseconds to the largest contentful paint on a slow phone.
const MOST_PAINT_MS = 2_000;
// Pages that answer with an error, which the browser reports.
const IS_ERROR = /^(not-found|link-invalid|pay-link-ended|refused-.*)$/;
// Forms whose answer is a page: the page of the form, its action, and the fields.
const ANSWERED = [
  ["/dashboard/charges/new", "/dashboard/charges", { amount: "1", document: "123", email: "x" }],
  ["/dashboard/webhooks", "/dashboard/webhooks", { url: "https://shop.example:1/" }],
  ["/dashboard/team", "/dashboard/team/invites", { email: "x" }],
  ["/dashboard/settings", "/dashboard/settings", { color: "x", phone: "x" }],
  ["/dashboard/developers", "/dashboard/developers/keys", { label: "browser" }],
];
// Pages that are inspected at the same time.
const TABS = 3;

const ready = JSON.parse(fs.readFileSync(path.join(work, "ready.json"), "utf8"));

async function api(method, route, body, more = {}) {
  const response = await fetch(`${ready.base_url}${route}`, {
    method,
    headers: { apikey: ready.test_api_key, "Content-Type": "application/json", ...more },
    body: body && JSON.stringify(body),
  });
  if (!response.ok) throw new Error(`${method} ${route}: ${await response.text()}`);
  return response.json();
}

async function until(what, read) {
  for (let tries = 0; tries < 300; tries += 1) {
    const found = await read();
    if (found) return found;
    await new Promise((done) => setTimeout(done, 100));
  }
  throw new Error(`no ${what}`);
}

// Objects in each state, with long and hostile texts.
async function seed() {
  const endpoint = await api("POST", "/v1/webhooks/endpoints", {
    url: "http://127.0.0.1:9/hooks/a-very-long-path-of-an-endpoint-that-does-not-answer/v2",
    events: ["charge.created", "charge.paid", "charge.expired"],
  });
  // In São Paulo.
  const today = new Date(Date.now() - 3 * 3_600_000).toISOString().slice(0, 10);
  const report = { type: "statement", format: "csv", from: today.slice(0, 8) + "01", to: today };
  await api("POST", "/v1/reports", report, { "Idempotency-Key": "browser-report" });
  await api("POST", `/v1/webhooks/endpoints/${endpoint.id}/recoveries`, { since: today, missing: true }, { "Idempotency-Key": "browser-recovery" });
  await api("POST", "/v1/pix/charges", { amount: "R$ 12,90" }).catch(() => {});
  const ask = ["name", "email", "document", "phone", "address"];
  const description = "Aula de violão <b>a-very-long-word-of-a-description-without-a-space</b>";
  const linkBody = { min_amount: 500, max_amount: 50_000, payment_methods: ["PIX", "CREDIT_CARD"], description, ask };
  const link = await api("POST", "/v1/payment_links", linkBody, { "Idempotency-Key": "browser-link" });
  const ended = await api("POST", "/v1/payment_links", { ...linkBody, description: "Ended" }, { "Idempotency-Key": "browser-link-ended" });
  await api("PATCH", `/v1/payment_links/${ended.id}`, { active: false });
  const charges = {};
  const states = { open: null, paid: "pay", failed: "fail", expired: "expire", disputed: "pay", refunded: "pay" };
  for (const [state, action] of Object.entries(states)) {
    const charge = await api("POST", "/v1/pix/charges", {
      amount: 12990,
      description: "Order 1",
      customer: { name: "Maria <b>Aparecida</b> dos Santos", document: "29537995593", email: "maria@example.com" },
      metadata: { order_id: `4711-${state}`, note: "<script>alert(1)</script>" },
    }, { "Idempotency-Key": `browser-${state}` });
    if (action) await api("POST", `/v1/sandbox/charges/${charge.id}/${action}`, {});
    charges[state] = charge;
  }
  const medCase = await api("POST", `/v1/sandbox/charges/${charges.disputed.id}/med-cases`, {});
  await api("POST", `/v1/payments/${charges.refunded.id}/refund`, { amount: 1000, reason: "Size too small", idempotencyKey: "browser-refund" });
  const payment = await api("POST", "/v1/payments", {
    amount: 12990,
    paymentMethods: ["BOLETO", "PIX", "CREDIT_CARD"],
    customerName: "Maria dos Santos",
    customerDocument: "29537995593",
    customerEmail: "maria@example.com",
    idempotencyKey: "browser-payment",
    metadata: { returnUrl: "https://shop.example/orders/4711" },
  });
  const delivery = await until("delivery", async () => {
    const page = await api("GET", "/v1/webhooks/deliveries?limit=100");
    return page.data.find((found) => found.attempts > 0);
  });
  const events = await api("GET", "/v1/events?limit=1");
  return { endpoint, charges, payment, medCase, delivery, event: events.data[0], links: { link, ended } };
}

// What a journey changes: a paid order with a delivery, and a disputed one.
async function shopOf(name) {
  const receiver = http.createServer((_, answer) => answer.end()).listen(0, "127.0.0.1");
  await new Promise((done) => receiver.once("listening", done));
  receiver.unref();
  const url = `http://127.0.0.1:${receiver.address().port}/${name}`;
  const endpoint = await api("POST", "/v1/webhooks/endpoints", { url, events: ["charge.created"] });
  const paid = async (order) => {
    const charge = await api("POST", "/v1/pix/charges", { amount: 12990, metadata: { order_id: order } }, { "Idempotency-Key": order });
    return api("POST", `/v1/sandbox/charges/${charge.id}/pay`, {});
  };
  const charge = await paid(`4711-${name}`);
  const disputed = await paid(`4712-${name}`);
  const medCase = await api("POST", `/v1/sandbox/charges/${disputed.id}/med-cases`, {});
  const delivery = await until("delivery", async () => {
    const page = await api("GET", `/v1/webhooks/deliveries?limit=100&endpointId=${endpoint.id}`);
    return page.data.find((found) => found.attempts > 0);
  });
  const log = path.join(work, "service.log");
  return { ready, log, work, until, order: `4711-${name}`, invited: `${name}@example.com`, endpoint, charge, medCase, delivery };
}

// Objects in live mode. The local bank pays.
async function seedLive() {
  const live = (method, route, body, more) => api(method, route, body, { apikey: ready.live_api_key, ...more });
  const endpoint = await live("POST", "/v1/webhooks/endpoints", { url: "https://shop.example/hooks", events: ["charge.created"] });
  const charges = {};
  for (const state of ["open", "paid", "refunded", "cancelled"]) {
    const charge = await live("POST", "/v1/pix/charges", {
      amount: 12990,
      customer: { name: "Maria <b>Aparecida</b> dos Santos", document: "29537995593", email: "maria@example.com" },
      metadata: { order_id: `4711-live-${state}` },
    }, { "Idempotency-Key": `browser-live-${state}` });
    if (state === "paid" || state === "refunded") {
      await api("POST", "/_local/bank/pay", { charge_id: charge.id });
      await until("live payment", async () => (await live("GET", `/v1/charges/${charge.id}`)).status === "paid");
    }
    charges[state] = charge;
  }
  await live("POST", `/v1/payments/${charges.refunded.id}/refund`, { amount: 1000, reason: "Size too small", idempotencyKey: "browser-refund" });
  await live("POST", `/v1/payments/${charges.cancelled.id}/cancel`);
  const first = async (route) => until("live object", async () => (await live("GET", route)).data[0]);
  return { endpoint, charges, event: await first("/v1/events?limit=1"), delivery: await first("/v1/webhooks/deliveries?limit=1") };
}

// The links of the e-mails of one kind. Without a mail server, the service logs the texts.
function mailed(kind) {
  return fs.readFileSync(path.join(work, "service.log"), "utf8").match(new RegExp(`/dashboard/${kind}/[A-Za-z0-9_-]{44}`, "g")) ?? [];
}

// Sends a form by script from a page of the dashboard.
async function send(context, route, fields) {
  const page = await context.newPage();
  await page.goto(`${ready.base_url}/dashboard/login`);
  const post = async (to, sent) => (await fetch(to, { method: "POST", body: new URLSearchParams(sent) })).url;
  const led = await page.evaluate(post, route, fields);
  await page.close();
  if (led.includes("error=")) throw new Error(`${route} led to ${led}`);
}

// A new link, which an e-mail brings after a form was sent.
async function linkOf(kind, context, route, fields) {
  const before = mailed(kind).length;
  await send(context, route, fields);
  return until("e-mail", async () => mailed(kind).length > before && mailed(kind).at(-1));
}

// Someone of each role in each mode. The owner invites the others.
async function logInAll(browser) {
  const sessions = [];
  for (const role of ROLES) {
    const { email, password } = role === "OWNER" ? ready.dashboard : { email: `${role.toLowerCase()}@example.com`, password: PASSWORD };
    for (const mode of MODES) {
      const context = await browser.createBrowserContext();
      if (role !== "OWNER" && mode === "test") {
        const invite = await linkOf("invite", sessions[0].context, "/dashboard/team/invites", { mode: "test", email, role });
        await send(context, invite, { password });
      } else {
        await send(context, "/dashboard/login", { email, password });
      }
      await send(context, "/dashboard/mode", { mode });
      sessions.push({ name: `${role} ${mode}`, mode, context });
    }
  }
  return sessions;
}

async function main() {
  const browser = await puppeteer.launch({ executablePath: process.env.BROWSER, args: ["--no-sandbox"] });
  const looks = Object.keys(SCREENS).flatMap((screen) => SCHEMES.map((scheme) => ({ screen, scheme })));
  const findings = [];
  const seen = [];
  let count = 0;
  // The pages in the order of their names, each with a URL, or one for each mode in which it exists.
  const inspectAll = async (sessions, pages) => {
    const visits = [];
    for (const [name, target] of Object.entries(pages)) {
      const urls = typeof target === "string" ? { test: target, live: target } : target;
      const able = sessions.filter(({ mode }) => urls[mode]);
      looks.forEach((look, turn) => {
        const session = able[(count + turn) % able.length];
        const language = LANGUAGES[(turn + Math.floor(count / 6)) % LANGUAGES.length];
        visits.push({ name, url: urls[session.mode], session, language, able, ...look });
      });
      count += 1;
    }
    seen.push(...visits);
    const next = visits.values();
    const work = async () => {
      for (const visit of next) {
        const where = `${visit.name}, ${visit.session.name}, ${visit.screen}, ${visit.scheme}, ${visit.language}`;
        findings.push(...(await inspect(visit)).map((finding) => `${where}: ${finding}`));
      }
    };
    await Promise.all(Array.from({ length: TABS }, work));
  };
  try {
    const nobody = [{ name: "nobody", mode: "test", context: await browser.createBrowserContext() }];
    await inspectAll(nobody, {
      login: "/dashboard/login",
      "login-refused": "/dashboard/login?error=unauthorized",
      "login-code": "/dashboard/totp?error=wrong_proof",
      forgotten: "/dashboard/reset",
      "forgotten-sent": "/dashboard/reset?done=1",
      "link-invalid": "/dashboard/invite/x",
    });
    const sessions = await logInAll(browser);
    // The empty states are seen first.
    const empty = {};
    for (const name of ["", "/charges", "/wallet", "/refunds", "/payouts", "/disputes", "/webhooks", "/events", "/notices", "/reports", "/requests", "/links"]) {
      empty[`empty${name.replace("/", "-") || "-home"}`] = `/dashboard${name}`;
    }
    await inspectAll(sessions, empty);
    const [seeded, live] = await Promise.all([seed(), seedLive()]);
    const { charges } = seeded;
    const checkout = new URL(charges.open.checkout_url).pathname;
    const outside = {
      docs: "/docs",
      "docs-page": "/docs/webhooks",
      "docs-portuguese": "/docs/pt-charges",
      "docs-search": "/docs/search?q=signature+verify",
      "pay-link": `/pay/${seeded.links.link.id}`,
      "pay-link-ended": `/pay/${seeded.links.ended.id}`,
      checkout,
      "checkout-live": new URL(live.charges.open.checkout_url).pathname,
      "checkout-methods": `/checkout/${seeded.payment.id.replace("tx_", "")}`,
      "payers-receipt": `${new URL(charges.paid.checkout_url).pathname}/receipt`,
      "three-d-secure": `/checkout/${seeded.payment.id.replace("tx_", "")}/card`,
      invite: await linkOf("invite", sessions[0].context, "/dashboard/team/invites", { mode: "test", email: "invited@example.com", role: "ADMIN" }),
      reset: await linkOf("reset", nobody[0].context, "/dashboard/reset", { email: "member@example.com" }),
    };
    for (const state of ["paid", "failed", "expired", "disputed"]) outside[`checkout-${state}`] = new URL(charges[state].checkout_url).pathname;
    await inspectAll(nobody, outside);
    const pages = { "not-found": "/dashboard/charges/ch_x" };
    const lists = ["", "/charges", "/charges?status=paid&method=PIX", "/charges?paid_after=2026-01-01", "/search", "/search?q=4712-%3Cb%3Enothing-with-a-long-number-0123456789012345678901234567890123456789", "/charges/new", "/charges?error=invalid_request&field=amount", "/wallet", "/refunds", "/payouts", "/disputes", "/webhooks", "/events", "/reports", "/requests", "/developers", "/team", "/team?error=last_owner", "/security", "/security?error=wrong_proof", "/settings", "/settings?done=1", "/confirm", "/audit", "/notices", "/help", "/links"];
    for (const name of lists) pages[`list${name.replace(/[/?&=]/g, "-") || "-home"}`] = `/dashboard${name}`;
    for (const state of new Set([...Object.keys(charges), ...Object.keys(live.charges)])) {
      const url = (of) => of && `/dashboard/charges/${of.id}`;
      pages[`charge-${state}`] = { test: url(charges[state]), live: url(live.charges[state]) };
    }
    const both = (route, of) => ({ test: `/dashboard/${route}/${of(seeded)}`, live: `/dashboard/${route}/${of(live)}` });
    pages.link = { test: `/dashboard/links/${seeded.links.link.id}` };
    pages.dispute = { test: `/dashboard/disputes/${seeded.medCase.id}` };
    pages["dispute-refused"] = { test: `${pages.dispute.test}?error=invalid_request&field=reason` };
    pages.endpoint = both("webhooks", ({ endpoint }) => endpoint.id);
    pages.delivery = both("deliveries", ({ delivery }) => delivery.id);
    pages.event = both("events", ({ event }) => event.id);
    pages.receipt = both("charges", ({ charges: of }) => `${of.refunded.id}/receipt`);
    const filters = { charges: "amount=x&created_after=x", events: "created_after=x", audit: "day=x" };
    for (const [list, filter] of Object.entries(filters)) pages[`refused-${list}`] = `/dashboard/${list}?${filter}`;
    await inspectAll(sessions, pages);
    // Settings need a log-in of the last ten minutes.
    const { email, password } = ready.dashboard;
    await send(sessions[0].context, "/dashboard/login", { email, password });
    findings.push(...await judgeAnswers(sessions[0].context));
    await setBrand(sessions[0].context);
    await inspectAll(sessions, { "branded-settings": "/dashboard/settings", "branded-receipt": pages.receipt });
    await inspectAll(nobody, { "branded-checkout": checkout, "branded-expired": outside["checkout-expired"], "branded-paid": outside["checkout-paid"], "branded-pay-link": outside["pay-link"] });
    findings.push(...missingPairs(seen, looks, sessions));
    console.log(`${seen.length} pages opened`);
    for (const [name, url] of Object.entries({ home: "/dashboard", "charge-paid": pages["charge-paid"].test, checkout })) {
      const paint = await largestPaint(sessions[0].context, url);
      console.log(`${name}: largest contentful paint after ${paint} ms on a slow phone`);
      if (paint > MOST_PAINT_MS) findings.push(`${name}: the largest contentful paint takes ${paint} ms`);
    }
    for (const hasScript of [true, false]) {
      const shop = await shopOf(hasScript ? "with-script" : "no-script");
      // Without JavaScript, axe-core does not run.
      shop.check = async (page) => {
        if (hasScript) findings.push(...(await judge(page)).map((finding) => `${page.url()} in the journey: ${finding}`));
      };
      await journey(browser, shop, hasScript);
      console.log(`the journey by keyboard ${hasScript ? "with" : "without"} JavaScript`);
    }
  } finally {
    await browser.close();
  }
  for (const finding of findings) console.error(finding);
  console.log(`${findings.length} findings`);
  if (findings.length > 0) process.exitCode = 1;
}

// Each page in each language, and by each session that can open it; each session, language and look with the others.
function missingPairs(seen, looks, sessions) {
  const opened = new Set();
  const needed = new Set();
  const look = ({ screen, scheme }) => `${screen} ${scheme}`;
  for (const visit of seen) {
    const { name, session, language, able } = visit;
    const parts = [name, session.name, language, look(visit)];
    for (const one of parts) for (const other of parts) opened.add(`${one}, ${other}`);
    for (const each of LANGUAGES) needed.add(`${name}, ${each}`);
    for (const each of able) needed.add(`${name}, ${each.name}`);
    for (const each of looks) needed.add(`${name}, ${look(each)}`);
  }
  for (const session of sessions) {
    for (const each of [...LANGUAGES, ...looks.map(look)]) needed.add(`${session.name}, ${each}`);
  }
  for (const each of looks) for (const language of LANGUAGES) needed.add(`${look(each)}, ${language}`);
  return [...needed].filter((pair) => !opened.has(pair)).map((pair) => `not opened: ${pair}`);
}

// The selector of a control by its role and its accessible name.
const named = (role, name) => `::-p-aria([name="${name}"][role="${role}"])`;

async function newPageInPortuguese(context) {
  const page = await context.newPage();
  await page.setExtraHTTPHeaders({ "Accept-Language": "pt-BR" });
  return page;
}

// Fills in the forms of the settings.
async function setBrand(context) {
  const page = await newPageInPortuguese(context);
  await page.goto(`${ready.base_url}/dashboard/settings`);
  const fields = {
    "Nome da loja": "Loja do Bairro <b>& Filhos</b>",
    "E-mail de atendimento": "atendimento@loja-do-bairro.example",
    "Telefone de atendimento, como (11) 4000-1234": "(11) 4000-1234",
  };
  for (const [label, value] of Object.entries(fields)) await page.type(named("textbox", label), value);
  await page.$eval("#color", (field) => { field.value = "#ffe08a"; });
  await Promise.all([page.waitForNavigation(), page.click(named("button", "Salvar"))]);
  const logo = path.join(work, "logo.png");
  fs.writeFileSync(logo, Buffer.from("iVBORw0KGgoAAAANSUhEUgAAACAAAAAQCAIAAAD4YuoOAAAAHUlEQVR4nGPgz46hKWIYtWDUglELRi0YtWAoWAAAGA+sEFhgz1oAAAAASUVORK5CYII=", "base64"));
  await (await page.$("input[type=file]")).uploadFile(logo);
  await Promise.all([page.waitForNavigation(), page.click(named("button", "Enviar logo"))]);
  if (!page.url().endsWith("?done=settings-logo")) throw new Error(`the logo led to ${page.url()}`);
  await page.close();
}

// Sends forms without the browser's own checks, and judges the pages that answer them.
async function judgeAnswers(context) {
  const page = await newPageInPortuguese(context);
  const found = [];
  const send = (action, fields) => {
    const form = document.querySelector(`form[action="${action}"]`);
    for (const [name, value] of Object.entries(fields)) form.elements[name].value = value;
    form.submit();
  };
  for (const [from, action, fields] of ANSWERED) {
    await page.goto(`${ready.base_url}${from}`);
    await Promise.all([page.waitForNavigation(), page.evaluate(send, action, fields)]);
    if (!await page.$("[aria-invalid]") && !await page.$(named("heading", "Chave da API"))) found.push(`${action} answers neither a refused field nor a key`);
    found.push(...(await judge(page)).map((finding) => `the answer to ${action}: ${finding}`));
  }
  await page.close();
  return found;
}

// Milliseconds to the largest contentful paint on a slow phone: a fourth of the CPU's speed, and slow 4G.
async function largestPaint(context, url) {
  const page = await context.newPage();
  await page.setViewport(SCREENS.phone);
  await page.emulateCPUThrottling(4);
  await page.emulateNetworkConditions({ download: 1_600_000 / 8, upload: 750_000 / 8, latency: 150 });
  await page.goto(`${ready.base_url}${url}`, { waitUntil: "load" });
  const paint = await page.evaluate(() => new Promise((found) => {
    const observer = new PerformanceObserver((list) => found(list.getEntries().at(-1).startTime));
    observer.observe({ type: "largest-contentful-paint", buffered: true });
  }));
  await page.close();
  return Math.round(paint);
}

async function inspect({ name, url, session, screen, scheme, language }) {
  const viewport = SCREENS[screen];
  const page = await session.context.newPage();
  const found = [];
  page.on("request", (request) => {
    // The icons of the browser's own date field and of the checkout page are data URLs.
    const isOwn = request.url().startsWith("data:");
    if (!isOwn && !request.url().startsWith(ready.base_url)) found.push(`a request to ${request.url()}`);
  });
  page.on("console", (message) => {
    // The checkout page and the documentation have no icon; browsers ask for one. The page of an error has the
    // status of the error, which the browser reports.
    const at = message.location().url ?? "";
    const isExpected = at.endsWith("/favicon.ico") || (IS_ERROR.test(name) && at.endsWith(url));
    if (message.type() === "error" && !isExpected) found.push(`the console shows: ${message.text()}`);
  });
  const sizes = [];
  page.on("response", (response) => {
    const isData = response.url().startsWith("data:");
    if (!isData) sizes.push(response.buffer().then((bytes) => bytes.length, () => 0));
  });
  page.on("pageerror", (error) => found.push(`the script fails: ${error.message}`));
  await page.setViewport(viewport);
  await page.setExtraHTTPHeaders({ "Accept-Language": language });
  const motion = { name: "prefers-reduced-motion", value: scheme === "dark" ? "reduce" : "no-preference" };
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }, motion]);
  const answer = await page.goto(`${ready.base_url}${url}`, { waitUntil: "load" });
  if (!answer.ok() && !IS_ERROR.test(name)) found.push(`the page answers ${answer.status()}`);
  if (screenshots) {
    await page.screenshot({ path: path.join(screenshots, `${name}-${screen}-${scheme}.png`), fullPage: name !== "docs" });
  }
  const [html, ...others] = await Promise.all(sizes);
  const all = others.reduce((sum, bytes) => sum + bytes, html);
  const [mostHtml, mostAll] = MOST_BYTES[url.split(/[/?]/)[1]];
  if (html > mostHtml || all > mostAll) found.push(`${html} bytes of HTML, ${all} in all`);
  const isWider = async (width, when) => {
    const shown = await page.evaluate(() => document.documentElement.scrollWidth);
    if (shown > width) found.push(`the page is ${shown} wide${when}`);
  };
  await isWider(viewport.width, "");
  if (screen === "desktop") {
    // All of the menu is seen, and the picture of the checkout is beside the fields.
    const badly = await page.evaluate(() => {
      const menu = document.querySelector("nav.menu ul");
      const [field, picture] = ["#color", ".preview"].map((part) => document.querySelector(part)?.getBoundingClientRect());
      return [
        menu && menu.scrollWidth > menu.clientWidth && "the menu is cut",
        field && picture && picture.left < field.right && "the picture is not beside the fields",
      ].filter(Boolean);
    });
    found.push(...badly);
  }
  await page.evaluate(() => {
    for (const fold of document.querySelectorAll("details")) {
      fold.removeAttribute("name"); // Folds with one name close each other.
      fold.open = true;
    }
  });
  await isWider(viewport.width, " with open folds");
  const cut = await page.evaluate(() => [...document.querySelectorAll("table.rows td")].filter((cell) => {
    const card = cell.closest(".card");
    return card && cell.getClientRects().length > 0 && cell.getBoundingClientRect().right > card.getBoundingClientRect().right + 0.5;
  }).map((cell) => cell.innerText.slice(0, 40)));
  if (cut.length > 0) found.push(`cells leave their card: ${cut.slice(0, 3).join(" | ")}`);
  found.push(...await judge(page));
  if (motion.value === "reduce") {
    const moving = await page.evaluate(() => {
      const moves = ({ animationName, transitionDuration }) => animationName !== "none" || /[1-9]/.test(transitionDuration);
      return [...document.querySelectorAll("*")].filter((element) => moves(getComputedStyle(element))).map(({ tagName }) => tagName);
    });
    if (moving.length > 0) found.push(`moves although less motion is preferred: ${moving.slice(0, 3)}`);
  }
  if (screen === "desktop") {
    await page.setViewport({ width: viewport.width / 2, height: viewport.height / 2, deviceScaleFactor: 2 });
    await isWider(viewport.width / 2, " at a zoom of 200 %");
  }
  await page.close();
  return found;
}

// What is wrong on the page that is shown: findings of axe-core, and edges that are hard to see.
async function judge(page) {
  // A policy of the page forbids an inline script, but not one that the inspector evaluates.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ["violations"], rules: { "target-size": { enabled: true } } }));
  const found = violations.map(({ id, help, nodes }) => {
    const shown = nodes.slice(0, 3).map((node) => `${node.html.slice(0, 120)} (${node.failureSummary?.split("\n")[1]?.trim()})`);
    return `${id}: ${help}: ${shown.join(" | ")} (${nodes.length})`;
  });
  const faint = await page.evaluate((least) => {
    const color = (text) => {
      const [red, green, blue, alpha = 1] = text.match(/[\d.]+/g).map(Number);
      return { channels: [red, green, blue], alpha };
    };
    const luminance = ({ channels }) => {
      const [red, green, blue] = channels.map((value) => (value / 255 <= 0.04045 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const contrast = (one, other) => {
      const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
      return (light + 0.05) / (dark + 0.05);
    };
    const behind = (element) => {
      for (let at = element.parentElement; at; at = at.parentElement) {
        const found = color(getComputedStyle(at).backgroundColor);
        if (found.alpha > 0) return found;
      }
      return color("rgb(255, 255, 255)");
    };
    const controls = [...document.querySelectorAll("input:not([type=hidden], [type=checkbox], [type=radio]), select, textarea, button, .btn")];
    const shown = controls.filter((control) => !control.disabled && control.getClientRects().length > 0);
    return shown.flatMap((control) => {
      const style = getComputedStyle(control);
      const hasBorder = style.borderTopStyle !== "none" && parseFloat(style.borderTopWidth) > 0;
      const edges = [color(style.backgroundColor), ...(hasBorder ? [color(style.borderTopColor)] : [])].filter(({ alpha }) => alpha > 0);
      const best = Math.max(1, ...edges.map((edge) => contrast(edge, behind(control))));
      return best < least ? [`${control.outerHTML.slice(0, 80)} has an edge of ${best.toFixed(2)}:1`] : [];
    });
  }, LEAST_EDGE);
  return found.concat(faint);
}

main();
