// Stores events as files, each once and never in part. In a database: an insert whose key is the event's id.

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.CharacterCodingException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.time.Instant;

class Inbox {
    /** False if the file does not exist, or a full disk or a power failure cut it off. */
    private static boolean isWhole(Path file, String id) throws IOException {
        try {
            return id.equals(Json.parse(Files.readString(file)).get("id").text());
        } catch (NoSuchFileException | CharacterCodingException | IllegalArgumentException broken) {
            return false;
        }
    }

    /** Writes a file under another name, which only a whole and synced file changes. */
    static void writeWhole(Path file, byte[] content) throws IOException {
        Path directory = file.toAbsolutePath().getParent();
        Path part = Files.createTempFile(directory, ".", ".part");
        try {
            try (var output = FileChannel.open(part, StandardOpenOption.WRITE)) {
                for (var rest = ByteBuffer.wrap(content); rest.hasRemaining(); ) {
                    output.write(rest);
                }
                output.force(true);
            }
            Files.move(part, file, StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException | RuntimeException error) {
            Files.deleteIfExists(part);
            throw error;
        }
        try (var names = FileChannel.open(directory)) {
            names.force(true); // the name too
        }
    }

    /**
     * Returns when the event is on the disk. A stored event stays as it is. No error and no crash leaves a part of
     * an event under the name that makes the next delivery a duplicate.
     */
    static void store(Path inbox, String id, byte[] event) throws IOException {
        Path file = inbox.resolve(id + ".json");
        if (!isWhole(file, id)) {
            writeWhole(file, event);
        }
    }

    /** Removes what a crash left, but nothing that another program may be writing. */
    static void removeParts(Path inbox) throws IOException {
        var hourAgo = Instant.now().minus(Duration.ofHours(1));
        try (var parts = Files.newDirectoryStream(inbox, ".*.part")) {
            for (Path part : parts) {
                try {
                    if (Files.getLastModifiedTime(part).toInstant().isBefore(hourAgo)) {
                        Files.delete(part);
                    }
                } catch (NoSuchFileException renamed) {
                    // by another program meanwhile
                }
            }
        }
    }
}
