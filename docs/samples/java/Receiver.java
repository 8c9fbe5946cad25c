// Receives webhooks: verifies each, stores its event once, and answers. Needs Java 17 or later.
// Usage: WEBHOOK_SECRET=… PORT=4000 INBOX=inbox java Receiver.java

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.HexFormat;
import java.util.concurrent.Executors;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

public class Receiver {
    private static final int MAX_BYTES = 1_000_000;
    private static final Pattern SIGNATURE = Pattern.compile("t=([0-9]{1,12}),v1=([0-9a-f]{64})");
    // Use a JSON library in your program.
    private static final Pattern ID = Pattern.compile("\"id\":\"(evt_[0-9A-Za-z]+)\"");
    private static final Path INBOX = Path.of(System.getenv("INBOX"));

    /** `header` is X-Service-Signature, `body` the bytes as they arrived. */
    static boolean isOurs(String secret, String header, byte[] body) throws GeneralSecurityException {
        var fields = SIGNATURE.matcher(header == null ? "" : header);
        if (!fields.matches() || Math.abs(Instant.now().getEpochSecond() - Long.parseLong(fields.group(1))) > 300) {
            return false;
        }
        var mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
        mac.update((fields.group(1) + ".").getBytes(StandardCharsets.UTF_8));
        return MessageDigest.isEqual(mac.doFinal(body), HexFormat.of().parseHex(fields.group(2)));
    }

    private static int statusOf(HttpExchange exchange) throws IOException, GeneralSecurityException {
        byte[] body = exchange.getRequestBody().readNBytes(MAX_BYTES);
        String header = exchange.getRequestHeaders().getFirst("X-Service-Signature");
        if (!isOurs(System.getenv("WEBHOOK_SECRET"), header, body)) {
            return 400;
        }
        var id = ID.matcher(new String(body, StandardCharsets.UTF_8));
        if (!id.find()) {
            return 400;
        }
        try {
            // CREATE_NEW fails if the file exists. In a database: an insert whose key is the event's id.
            Files.write(INBOX.resolve(id.group(1) + ".json"), body, StandardOpenOption.CREATE_NEW);
        } catch (FileAlreadyExistsException duplicate) {
            // answered like the first
        }
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
                } catch (Exception error) {
                    error.printStackTrace();
                }
                exchange.sendResponseHeaders(status, -1);
            }
        });
        server.start();
    }
}
