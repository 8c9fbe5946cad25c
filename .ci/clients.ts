// Makes calls with the client that openapi-typescript generated. The compiler checks each body and answer.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import createClient from "openapi-fetch";
import type { components, paths } from "./payments.d.ts";

const ready = JSON.parse(readFileSync(process.env.READY_FILE!, "utf8"));
const client = createClient<paths>({ baseUrl: ready.base_url, headers: { apikey: ready.test_api_key } });
let calls = 0;

/** Returns the body of an answer, which must be a success. */
async function body<T>(answer: Promise<{ data?: T; error?: unknown }>): Promise<T> {
  const { data, error } = await answer;
  assert.equal(error, undefined, JSON.stringify(error));
  calls += 1;
  return data!;
}

type Event = components["schemas"]["Event"];
const isPaid = (event: Event): event is components["schemas"]["ChargePaidEvent"] =>
  "type" in event && event.type === "charge.paid";

const charge = await body(
  client.POST("/v1/pix/charges", {
    params: { header: { "Idempotency-Key": "client-1001" } },
    body: { amount: 1990, customer: { name: "Ana", document: "529.982.247-25" }, metadata: { order_id: "1" } },
  }),
);
assert.equal(charge.status, "pending");
const path = { id: charge.id };
await body(client.POST("/v1/sandbox/charges/{id}/pay", { params: { path }, body: {} }));
const status: "paid" | string = (await body(client.GET("/v1/charges/{id}", { params: { path } }))).status;
assert.equal(status, "paid");
const list = await body(client.GET("/v1/charges", { params: { query: { status: "paid", limit: 1 } } }));
assert.equal(list.data[0]?.id, charge.id);
const refund = await body(
  client.POST("/v1/payments/{id}/refund", {
    params: { path },
    body: { idempotencyKey: "client-1002", amount: 500 },
  }),
);
assert.equal(refund.amount, 500);
const payment = await body(
  client.POST("/v1/payments", {
    body: { amount: 990, paymentMethods: ["CREDIT_CARD"], idempotencyKey: "client-1003" },
  }),
);
const read = await body(client.GET("/v1/payments/{id}", { params: { path: { id: payment.id } } }));
assert.deepEqual(read.paymentMethods, ["CREDIT_CARD"]);
const endpoint = await body(
  client.POST("/v1/webhooks/endpoints", {
    body: { url: "https://shop.example.com/hook", events: ["charge.paid"] },
  }),
);
assert.equal(endpoint.status, "ACTIVE");
const catalog = await body(client.GET("/v1/webhooks/event-catalog"));
assert.ok(catalog.some((entry) => entry.legacy));
let paid: components["schemas"]["ChargePaidEvent"] | undefined;
for (let attempt = 0; attempt < 100 && !paid; attempt += 1) {
  paid = (await body(client.GET("/v1/events"))).data.filter(isPaid).find((event) => event.data.object.id === charge.id);
  if (!paid) await new Promise((resolve) => setTimeout(resolve, 100));
}
assert.equal(paid?.data.object.amount, 1990);
const timeline = await body(client.GET("/v1/charges/{id}/timeline", { params: { path } }));
assert.equal(timeline.data[0]?.type, "status");
assert.equal((await body(client.GET("/v1/webhooks/deliveries"))).complete, true);
console.log(`TypeScript: ${calls} calls`);
