// Stores every event since a time in the inbox, unless the inbox has it. Needs Java 17 or later.
// Usage: SERVICE_URL=… API_KEY=… INBOX=inbox java CatchUp.java 2026-11-21T10:00:00Z

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.regex.Pattern;

public class CatchUp {
    private static final HttpClient CLIENT = HttpClient.newHttpClient();
    // The list is read for the ids, then each event by its id. With a JSON library, store the events of the list.
    private static final Pattern ID = Pattern.compile("\"id\":\"(evt_[0-9A-Za-z]+)\"");
    private static final Pattern NEXT = Pattern.compile("\"next_cursor\":\"(evt_[0-9A-Za-z]+)\"");

    private static String get(String path) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(System.getenv("SERVICE_URL") + path))
                .timeout(Duration.ofSeconds(30))
                .header("apikey", System.getenv("API_KEY"))
                .build();
        var response = CLIENT.send(request, BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new IOException(response.statusCode() + ": " + response.body());
        }
        return response.body();
    }

    public static void main(String[] args) throws Exception {
        Path inbox = Files.createDirectories(Path.of(System.getenv("INBOX")));
        String list = "/v1/events?limit=100&created_after=" + URLEncoder.encode(args[0], StandardCharsets.UTF_8);
        String cursor = "";
        do {
            String page = get(list + cursor);
            var ids = ID.matcher(page);
            while (ids.find()) {
                Path file = inbox.resolve(ids.group(1) + ".json");
                if (!Files.exists(file)) {
                    try {
                        Files.writeString(file, get("/v1/events/" + ids.group(1)), StandardOpenOption.CREATE_NEW);
                    } catch (FileAlreadyExistsException received) {
                        // by a webhook, meanwhile
                    }
                }
            }
            var next = NEXT.matcher(page);
            cursor = next.find() ? "&starting_after=" + next.group(1) : "";
        } while (!cursor.isEmpty());
    }
}
