// The shop's table of orders. It is a file here. In your program it is a table of your database.

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;

class Table {
    /** The values are those of JSON, so that the table is written as it is. */
    private final Map<String, Object> rows;

    private Table(Map<String, Object> rows) {
        this.rows = rows;
    }

    @SuppressWarnings("unchecked")
    static Table read(Path file) throws IOException {
        var rows = Files.exists(file) ? Json.parse(Files.readString(file)).value() : new LinkedHashMap<>();
        return new Table((Map<String, Object>) rows);
    }

    void write(Path file) throws IOException {
        Inbox.writeWhole(file, new Json(rows).toString().getBytes(StandardCharsets.UTF_8));
    }

    Map<String, Json> rows() {
        return new Json(rows).fields();
    }

    /** The row of a charge. It is null if there is none. */
    Json row(String charge) {
        return new Json(rows.get(charge));
    }

    /** The object at a path, which is created if it does not exist. */
    @SuppressWarnings("unchecked")
    Map<String, Object> at(String... path) {
        Map<String, Object> found = rows;
        for (String name : path) {
            found = (Map<String, Object>) found.computeIfAbsent(name, absent -> new LinkedHashMap<String, Object>());
        }
        return found;
    }
}
