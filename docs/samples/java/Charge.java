// Creates the charge of an order, and pays it in the sandbox.
// Usage: javac -d classes *.java
//        SERVICE_URL=… API_KEY=ak_test_… java -cp classes Charge ORDER_ID AMOUNT

import java.util.Map;

class Charge {
    public static void main(String[] args) throws Exception {
        String order = args[0];
        long amount = Long.parseLong(args[1]);
        // The key is derived from the order, so the order has one charge, however often this program runs. A key
        // has 8 to 128 characters. The prefix makes the key of order 1 long enough.
        Json charge = Client.call(
                "POST",
                "/v1/pix/charges",
                Map.of("amount", amount, "description", "Order " + order, "metadata", Map.of("order_id", order)),
                "Idempotency-Key", "shop-order-" + order);
        System.out.println(charge.get("pix").get("br_code").text());
        String id = charge.get("id").text();
        // Only a test key can do this. A live charge is paid in the app of a bank.
        Json paid = Client.call("POST", "/v1/sandbox/charges/" + id + "/pay", Map.of());
        if (!"paid".equals(paid.get("status").text())) {
            throw new IllegalStateException("the charge is not paid: " + paid);
        }
        System.out.println(id);
    }
}
