// Calls the API. Repeats a request after a failure of the network, a 429 and a 5xx. Needs Java 17 or later.
// The programs beside it read the environment variables SERVICE_URL and API_KEY.

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;

class Client {
    private static final int ATTEMPTS = 6;
    private static final long MAX_WAIT_MILLIS = 60_000; // the rate limit counts by minutes
    private static final HttpClient CLIENT = HttpClient.newHttpClient();

    /** How long to wait: as `Retry-After` says in seconds or as a date, else as the backoff. */
    private static long millisOf(String retryAfter, long backoff) {
        long wait;
        try {
            wait = retryAfter.matches("[0-9]{1,9}")
                    ? Long.parseLong(retryAfter) * 1000
                    : Instant.from(DateTimeFormatter.RFC_1123_DATE_TIME.parse(retryAfter)).toEpochMilli()
                            - System.currentTimeMillis();
        } catch (DateTimeException | ArithmeticException malformed) {
            return backoff;
        }
        return Math.min(Math.max(wait, backoff), MAX_WAIT_MILLIS);
    }

    static String send(String method, String url, byte[] body, Map<String, String> headers)
            throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(url))
                .timeout(Duration.ofSeconds(30))
                .method(method, BodyPublishers.ofByteArray(body));
        headers.forEach(request::header);
        for (int attempt = 1; ; attempt++) {
            long wait = ThreadLocalRandom.current().nextLong(500, 1000) << (attempt - 1);
            try {
                var response = CLIENT.send(request.build(), BodyHandlers.ofString());
                int status = response.statusCode();
                if (status / 100 == 2) {
                    return response.body();
                }
                if (attempt == ATTEMPTS || (status != 429 && status < 500)) {
                    throw new IllegalStateException(status + ": " + response.body());
                }
                wait = millisOf(response.headers().firstValue("Retry-After").orElse(""), wait);
            } catch (IOException error) {
                if (attempt == ATTEMPTS) {
                    throw error;
                }
            }
            Thread.sleep(wait);
        }
    }

    /** `body` is null if there is none. `headers` are names, each before its value. */
    static Json call(String method, String path, Map<String, ?> body, String... headers)
            throws IOException, InterruptedException {
        var all = new HashMap<String, String>();
        all.put("apikey", System.getenv("API_KEY"));
        all.put("Content-Type", "application/json");
        for (int i = 0; i < headers.length; i += 2) {
            all.put(headers[i], headers[i + 1]);
        }
        byte[] content = (body == null ? "" : new Json(body).toString()).getBytes(StandardCharsets.UTF_8);
        return Json.parse(send(method, System.getenv("SERVICE_URL") + path, content, all));
    }

    /** All objects of a list, newest first. `query` are the parameters after `limit`. */
    static List<Json> items(String path, String query) throws IOException, InterruptedException {
        var items = new ArrayList<Json>();
        Json page;
        String cursor = "";
        do {
            page = call("GET", path + "?limit=100&" + query + cursor, null);
            items.addAll(page.get("data").items());
            cursor = "&starting_after=" + page.get("next_cursor").text();
        } while (page.get("has_more").value() == Boolean.TRUE);
        return items;
    }

    static String encoded(String value) {
        return URLEncoder.encode(value, StandardCharsets.UTF_8);
    }
}
