// Opens pages of the service in a browser and runs axe-core. See .ci/accessibility.

const fs = require("node:fs");
const { createRequire } = require("node:module");
const path = require("node:path");

const [work, screenshots] = process.argv.slice(2);
const requireInstalled = createRequire(path.join(path.resolve(work), "accessibility.js"));
const axe = fs.readFileSync(requireInstalled.resolve("axe-core/axe.min.js"), "utf8");
const puppeteer = requireInstalled("puppeteer-core");

const SCREENS = {
  phone: { width: 390, height: 844, deviceScaleFactor: 2, isMobile: true, hasTouch: true },
  desktop: { width: 1280, height: 900 },
};

async function main() {
  const ready = JSON.parse(fs.readFileSync(path.join(work, "ready.json"), "utf8"));
  const created = await fetch(`${ready.base_url}/v1/pix/charges`, {
    method: "POST",
    headers: {
      apikey: ready.test_api_key,
      "Content-Type": "application/json",
      "Idempotency-Key": "accessibility-1",
    },
    body: JSON.stringify({ amount: 1990, description: "Order 1" }),
  });
  if (!created.ok) throw new Error(await created.text());
  const pages = {
    home: `${ready.base_url}/`,
    docs: `${ready.base_url}/docs`,
    checkout: (await created.json()).checkout_url,
  };
  const browser = await puppeteer.launch({ executablePath: process.env.BROWSER, args: ["--no-sandbox"] });
  let findings = 0;
  try {
    for (const [name, url] of Object.entries(pages)) {
      for (const [screen, viewport] of Object.entries(SCREENS)) {
        for (const scheme of ["light", "dark"]) {
          const found = await inspect(browser, ready.base_url, { name, url, screen, viewport, scheme });
          for (const finding of found) console.error(`${name}, ${screen}, ${scheme}: ${finding}`);
          findings += found.length;
        }
      }
    }
  } finally {
    await browser.close();
  }
  console.log(`${findings} findings`);
  if (findings > 0) process.exitCode = 1;
}

async function inspect(browser, baseUrl, { name, url, screen, viewport, scheme }) {
  const page = await browser.newPage();
  const found = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(baseUrl)) found.push(`a request to ${request.url()}`);
  });
  page.on("console", (message) => {
    // The service has no icon; browsers ask for one.
    const isIcon = message.location().url?.endsWith("/favicon.ico");
    if (message.type() === "error" && !isIcon) found.push(`the console shows: ${message.text()}`);
  });
  await page.setViewport(viewport);
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.goto(url, { waitUntil: "load" });
  if (screenshots) await page.screenshot({ path: path.join(screenshots, `${name}-${screen}-${scheme}.png`) });
  const width = await page.evaluate(() => document.documentElement.scrollWidth);
  if (width > viewport.width) found.push(`the page is ${width} wide`);
  await page.evaluate(() => {
    for (const fold of document.querySelectorAll("details")) {
      fold.removeAttribute("name"); // Folds with one name close each other.
      fold.open = true;
    }
  });
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run());
  for (const { id, help, nodes } of violations) {
    found.push(`${id}: ${help}: ${nodes.slice(0, 3).map((node) => node.html.slice(0, 120)).join(" | ")} (${nodes.length})`);
  }
  await page.close();
  return found;
}

main();
