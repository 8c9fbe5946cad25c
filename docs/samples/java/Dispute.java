// Answers a MED case: uploads a file as evidence, then appeals. If it fails, run it again.
// Usage: SERVICE_URL=… API_KEY=… java -cp classes Dispute CASE_ID FILE REASON

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

class Dispute {
    private static final Map<String, String> TYPES =
            Map.of("pdf", "application/pdf", "png", "image/png", "jpg", "image/jpeg");

    private static void upload(String path, Path file, String name) throws IOException, InterruptedException {
        byte[] content = Files.readAllBytes(file);
        Json ticket = Client.call("POST", path + "/evidence", Map.of(
                "file_name", name,
                "file_size", content.length,
                "mime_type", TYPES.get(name.substring(name.lastIndexOf('.') + 1))));
        // Without the API key: the URL is the credential. HttpClient adds Content-Length itself.
        var headers = Map.of("Content-Type", ticket.get("upload_headers").get("Content-Type").text());
        Client.send(ticket.get("upload_method").text(), ticket.get("upload_url").text(), content, headers);
        Client.call("POST", path + "/evidence/" + ticket.get("id").text() + "/complete", null);
    }

    public static void main(String[] args) throws Exception {
        String path = "/v1/med/cases/" + args[0];
        Path file = Path.of(args[1]);
        String name = file.getFileName().toString();
        String status = Client.call("GET", path, null).get("status").text();
        if (status.equals("open")) { // else it was answered, and a second appeal would be refused
            var evidence = Client.call("GET", path + "/evidence", null).get("data").items();
            if (evidence.stream().noneMatch(uploaded -> name.equals(uploaded.get("file_name").text()))) {
                upload(path, file, name);
            }
            status = Client.call("POST", path + "/appeal", Map.of("reason", args[2])).get("status").text();
        }
        System.out.println(args[0] + " " + status);
    }
}
