// Verifies the deliveries that `.ci/webhook_libraries.py` collected, by the samples in Node of docs/guide/webhooks.md
// and docs/samples/node.

const fs = require("node:fs");
const { createRequire } = require("node:module");
const path = require("node:path");

const work = process.argv[2];
const cases = JSON.parse(fs.readFileSync(path.join(work, "cases.json"), "utf8"));
const requireInstalled = createRequire(path.join(path.resolve(work), "samples.js"));
const names = ["eventByStripe", "eventByStandardWebhooks"];
const sources = `${fs.readFileSync(path.join(work, "samples.js"), "utf8")}\nreturn { ${names.join(", ")} };`;
const sample = new Function("require", sources)(requireInstalled);

// Returns whether the sample accepts. An error of another type is an error of this test.
function outcome(verify, refusal) {
  try {
    return verify() !== false;
  } catch (error) {
    if (error.name === refusal || error.type === refusal) return false;
    throw error;
  }
}

async function main() {
  const { isOurs } = await import(path.resolve("docs/samples/node/signature.mjs"));
  for (const { name, shown, headers: received, body: encoded, isRight } of cases) {
    const body = Buffer.from(encoded, "base64");
    const headers = Object.fromEntries(Object.entries(received).map(([key, value]) => [key.toLowerCase(), value]));
    const { secret, standardWebhooksSecret } = shown;
    const outcomes = {
      "no library": outcome(() => isOurs(secret, headers["x-service-signature"], body)),
      stripe: outcome(() => sample.eventByStripe(secret, headers, body), "StripeSignatureVerificationError"),
      standardwebhooks: outcome(
        () => sample.eventByStandardWebhooks(standardWebhooksSecret, headers, body),
        "WebhookVerificationError",
      ),
    };
    for (const [verifier, accepts] of Object.entries(outcomes)) {
      if (accepts !== isRight) {
        console.error(`FAILED: Node, ${verifier}: ${name}: accepted: ${accepts}, expected: ${isRight}`);
        process.exit(1);
      }
    }
  }
  console.log(`Node: ${cases.length} cases, each by stripe, standardwebhooks and no library`);
}

main();
