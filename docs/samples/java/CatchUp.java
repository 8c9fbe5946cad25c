// Stores every event since a time in the inbox, unless the inbox has it. Replaces broken files.
// Usage: SERVICE_URL=… API_KEY=… INBOX=inbox java -cp classes CatchUp 2026-11-21T10:00:00Z

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

class CatchUp {
    public static void main(String[] args) throws Exception {
        Path inbox = Files.createDirectories(Path.of(System.getenv("INBOX")));
        Inbox.removeParts(inbox);
        for (Json event : Client.items("/v1/events", "created_after=" + Client.encoded(args[0]))) {
            Inbox.store(inbox, event.get("id").text(), event.toString().getBytes(StandardCharsets.UTF_8));
        }
    }
}
