// Returns an amount of a paid charge to the payer.
// Usage: SERVICE_URL=… API_KEY=… java -cp classes Refund RETURN_ID CHARGE_ID AMOUNT

import java.util.Map;

class Refund {
    public static void main(String[] args) throws Exception {
        String returnId = args[0];
        Json refund = Client.call("POST", "/v1/payments/" + args[1] + "/refund", Map.of(
                // Derived from the return, so a return is paid once, however often this program runs.
                "idempotencyKey", "shop-return-" + returnId,
                "amount", Long.parseLong(args[2]),
                "strategy", "devolution",
                "reason", "Return " + returnId));
        // The refund is not complete yet. An event reports its end.
        System.out.println(refund.get("id").text() + " " + refund.get("status").text());
    }
}
