// Creates a charge and pays it in the sandbox. Needs Java 17 or later.
// Usage: SERVICE_URL=… API_KEY=ak_test_… java Charge.java ORDER_ID AMOUNT

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public class Charge {
    private static final int ATTEMPTS = 6;
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    /** Posts a request. Repeats it after a failure of the network, a 429 and a 5xx. */
    private static String call(String path, String body, String... headers) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(System.getenv("SERVICE_URL") + path))
                .timeout(Duration.ofSeconds(30))
                .header("apikey", System.getenv("API_KEY"))
                .header("Content-Type", "application/json")
                .POST(BodyPublishers.ofString(body));
        for (int i = 0; i < headers.length; i += 2) {
            request.header(headers[i], headers[i + 1]);
        }
        for (int attempt = 1; ; attempt++) {
            long waitMillis = ThreadLocalRandom.current().nextLong(500, 1000) << (attempt - 1);
            try {
                HttpResponse<String> response = CLIENT.send(request.build(), BodyHandlers.ofString());
                int status = response.statusCode();
                if (status / 100 == 2) {
                    return response.body();
                }
                if (attempt == ATTEMPTS || (status != 429 && status < 500)) {
                    throw new IllegalStateException(status + ": " + response.body());
                }
                var retryAfter = response.headers().firstValue("Retry-After");
                if (retryAfter.isPresent()) {
                    waitMillis = Long.parseLong(retryAfter.get()) * 1000;
                }
            } catch (IOException error) {
                if (attempt == ATTEMPTS) {
                    throw error;
                }
            }
            Thread.sleep(waitMillis);
        }
    }

    /** Reads a text of a JSON object. Use a JSON library in your program. */
    private static String text(String json, String name) {
        Matcher found = Pattern.compile("\"" + name + "\":\"([^\"]*)\"").matcher(json);
        if (!found.find()) {
            throw new IllegalStateException("no " + name + " in " + json);
        }
        return found.group(1);
    }

    public static void main(String[] args) throws Exception {
        String order = args[0];
        long amount = Long.parseLong(args[1]);
        // The key is derived from the order, so the order has one charge, however often this program runs.
        String charge = call(
                "/v1/pix/charges",
                "{\"amount\": " + amount + ", \"description\": \"Order " + order + "\"}",
                "Idempotency-Key", "order-" + order);
        System.out.println(text(charge, "br_code"));
        String id = text(charge, "id");
        // Only a test key can do this. A live charge is paid in the app of a bank.
        String paid = call("/v1/sandbox/charges/" + id + "/pay", "{}");
        if (!text(paid, "status").equals("paid")) {
            throw new IllegalStateException("the charge is not paid: " + paid);
        }
        System.out.println(id);
    }
}
