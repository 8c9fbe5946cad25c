// Receives webhooks: verifies each, stores its event once, and answers.
// Usage: WEBHOOK_SECRET=… PORT=4000 INBOX=inbox java -cp classes Receiver

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.concurrent.Executors;

class Receiver {
    private static final int MAX_BYTES = 1_000_000;
    private static final Path INBOX = Path.of(System.getenv("INBOX"));

    private static int statusOf(HttpExchange exchange) throws IOException, GeneralSecurityException {
        byte[] body = exchange.getRequestBody().readNBytes(MAX_BYTES);
        String header = exchange.getRequestHeaders().getFirst("X-Service-Signature");
        if (!Signature.isOurs(System.getenv("WEBHOOK_SECRET"), header, body)) {
            return 400;
        }
        String id = Json.parse(new String(body, StandardCharsets.UTF_8)).get("id").text();
        if (id == null || !id.matches("evt_[0-9a-z]+")) {
            return 400;
        }
        Inbox.store(INBOX, id, body);
        return 204; // Another program processes the inbox, ordered by `created_at`.
    }

    public static void main(String[] args) throws IOException {
        Files.createDirectories(INBOX);
        var address = new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(System.getenv("PORT")));
        var server = HttpServer.create(address, 0);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.createContext("/", exchange -> {
            try (exchange) {
                int status = 500; // The service repeats the delivery.
                try {
                    status = statusOf(exchange);
                } catch (Exception error) { // for example a full disk
                    error.printStackTrace();
                }
                exchange.sendResponseHeaders(status, -1);
            }
        });
        server.start();
    }
}
