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
const MOST_BYTES = { dashboard: [30_000, 60_000], checkout: [15_000, 30_000], docs: [120_000, 160_000] };
// The languages take turns over the screens and schemes, so that each page is opened in all three.
const LANGUAGES = ["pt-BR", "en", "es"];

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
  return { endpoint, charges, payment, medCase, delivery, event: events.data[0] };
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

async function main() {
  // The empty states are seen first.
  const empty = {};
  for (const name of ["", "/charges", "/wallet", "/refunds", "/payouts", "/disputes", "/webhooks", "/events", "/notices"]) {
    empty[`empty${name.replace("/", "-") || "-home"}`] = `/dashboard${name}`;
  }
  const browser = await puppeteer.launch({ executablePath: process.env.BROWSER, args: ["--no-sandbox"] });
  let findings = 0;
  const inspectAll = async (pages) => {
    let turn = 0;
    for (const [name, url] of Object.entries(pages)) {
      for (const [screen, viewport] of Object.entries(SCREENS)) {
        for (const scheme of ["light", "dark"]) {
          const language = LANGUAGES[turn % LANGUAGES.length];
          turn += 1;
          const found = await inspect(browser, { name, url, screen, viewport, scheme, language });
          for (const finding of found) console.error(`${name}, ${screen}, ${scheme}, ${language}: ${finding}`);
          findings += found.length;
        }
      }
      turn += 1;
    }
  };
  try {
    await inspectAll({ login: "/dashboard/login", "login-refused": "/dashboard/login?error=unauthorized", "login-code": "/dashboard/totp?error=wrong_proof" });
    await inspectAll({ forgotten: "/dashboard/reset", "forgotten-sent": "/dashboard/reset?done=1", "link-invalid": "/dashboard/invite/x" });
    const entered = await browser.newPage();
    await entered.goto(`${ready.base_url}/_local/dashboard`);
    await entered.close();
    await inspectAll(empty);
    const seeded = await seed();
    const { charges } = seeded;
    const checkout = new URL(charges.open.checkout_url).pathname;
    const pages = {
      docs: "/docs",
      "docs-page": "/docs/webhooks",
      "docs-search": "/docs/search?q=signature+verify",
      checkout,
      "checkout-methods": `/checkout/${seeded.payment.id.replace("tx_", "")}`,
      "not-found": "/dashboard/charges/ch_x",
    };
    for (const state of ["paid", "failed", "expired", "disputed"]) pages[`checkout-${state}`] = new URL(charges[state].checkout_url).pathname;
    const lists = ["", "/charges", "/charges?status=paid&method=PIX", "/search", "/search?q=4712-%3Cb%3Enothing-with-a-long-number-0123456789012345678901234567890123456789", "/charges/new", "/charges?error=invalid_request&field=amount", "/wallet", "/refunds", "/payouts", "/disputes", "/webhooks", "/events", "/developers", "/team", "/security", "/security?error=wrong_proof", "/confirm", "/audit", "/notices"];
    for (const name of lists) pages[`list${name.replace(/[/?&=]/g, "-") || "-home"}`] = `/dashboard${name}`;
    for (const [state, charge] of Object.entries(charges)) pages[`charge-${state}`] = `/dashboard/charges/${charge.id}`;
    pages.dispute = `/dashboard/disputes/${seeded.medCase.id}`;
    pages["dispute-refused"] = `${pages.dispute}?error=invalid_request&field=reason`;
    pages.endpoint = `/dashboard/webhooks/${seeded.endpoint.id}`;
    pages.delivery = `/dashboard/deliveries/${seeded.delivery.id}`;
    pages.event = `/dashboard/events/${seeded.event.id}`;
    pages.settings = "/dashboard/settings";
    pages.receipt = `/dashboard/charges/${charges.refunded.id}/receipt`;
    pages["payers-receipt"] = `${new URL(charges.paid.checkout_url).pathname}/receipt`;
    pages["three-d-secure"] = `/checkout/${seeded.payment.id.replace("tx_", "")}/card`;
    await inspectAll(pages);
    await setBrand(browser);
    await inspectAll({
      "branded-settings": pages.settings,
      "branded-checkout": checkout,
      "branded-expired": pages["checkout-expired"],
      "branded-paid": pages["checkout-paid"],
      "branded-receipt": pages.receipt,
    });
    for (const name of ["list-home", "charge-paid", "checkout"]) {
      console.log(`${name}: largest contentful paint after ${await largestPaint(browser, pages[name])} ms on a slow phone`);
    }
    for (const hasScript of [true, false]) {
      await journey(browser, await shopOf(hasScript ? "with-script" : "no-script"), hasScript);
      console.log(`the journey by keyboard ${hasScript ? "with" : "without"} JavaScript`);
    }
  } finally {
    await browser.close();
  }
  console.log(`${findings} findings`);
  if (findings > 0) process.exitCode = 1;
}

// Fills in the forms of the settings.
async function setBrand(browser) {
  const page = await browser.newPage();
  await page.goto(`${ready.base_url}/dashboard/settings`);
  const fields = { name: "Loja do Bairro <b>& Filhos</b>", color: "#ffe08a", email: "atendimento@loja-do-bairro.example", phone: "(11) 4000-1234" };
  for (const [name, value] of Object.entries(fields)) await page.type(`#${name}`, value);
  await Promise.all([page.waitForNavigation(), page.click('form[action="/dashboard/settings"] button')]);
  const logo = path.join(work, "logo.png");
  fs.writeFileSync(logo, Buffer.from("iVBORw0KGgoAAAANSUhEUgAAACAAAAAQCAIAAAD4YuoOAAAAHUlEQVR4nGPgz46hKWIYtWDUglELRi0YtWAoWAAAGA+sEFhgz1oAAAAASUVORK5CYII=", "base64"));
  await (await page.$("#logo")).uploadFile(logo);
  await Promise.all([page.waitForNavigation(), page.click('form[enctype] button')]);
  if (!page.url().endsWith("?done=1")) throw new Error(`the logo led to ${page.url()}`);
  await page.close();
}

// Milliseconds to the largest contentful paint on a slow phone: a fourth of the CPU's speed, and slow 4G.
async function largestPaint(browser, url) {
  const page = await browser.newPage();
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

async function inspect(browser, { name, url, screen, viewport, scheme, language }) {
  const page = await browser.newPage();
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
    const isExpected = at.endsWith("/favicon.ico") || (["not-found", "link-invalid"].includes(name) && at.endsWith(url));
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
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(`${ready.base_url}${url}`, { waitUntil: "load" });
  if (screenshots) {
    await page.screenshot({ path: path.join(screenshots, `${name}-${screen}-${scheme}.png`), fullPage: name !== "docs" });
  }
  const [html, ...others] = await Promise.all(sizes);
  const all = others.reduce((sum, bytes) => sum + bytes, html);
  const [mostHtml, mostAll] = MOST_BYTES[url.split(/[/?]/)[1]];
  if (html > mostHtml || all > mostAll) found.push(`${html} bytes of HTML, ${all} in all`);
  const isWider = async (when) => {
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    if (width > viewport.width) found.push(`the page is ${width} wide${when}`);
  };
  await isWider("");
  await page.evaluate(() => {
    for (const fold of document.querySelectorAll("details")) {
      fold.removeAttribute("name"); // Folds with one name close each other.
      fold.open = true;
    }
  });
  await isWider(" with open folds");
  // A policy of the page forbids an inline script, but not one that the inspector evaluates.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  for (const { id, help, nodes } of violations) {
    found.push(`${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")} (${nodes.length})`);
  }
  await page.close();
  return found;
}

main();
