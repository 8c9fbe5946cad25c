// Brings the shop's table of orders up to date with the inbox, and prints what the shop must do.
// Usage: INBOX=inbox ORDERS=orders.json java -cp classes Orders

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Map;

class Orders {
    private static String field(Map<String, Object> entry, String name) {
        return entry.get(name) instanceof String text ? text : "";
    }

    /** Applies an event to the table. An event shows its object after the change. */
    private static void apply(Table table, Json event) {
        String[] type = event.get("type").text().split("\\.");
        String at = event.get("created_at").text();
        Json shown = event.get("data").get("object");
        Map<String, Object> entry;
        String[] fields;
        switch (type[0]) {
            case "charge" -> {
                entry = table.at(shown.get("id").text());
                fields = new String[] {"amount", "status", "created_at"};
            }
            case "refund" -> {
                entry = table.at(shown.get("charge_id").text(), "refunds", shown.get("id").text());
                fields = new String[] {"amount"};
            }
            case "med_case" -> {
                entry = table.at(shown.get("charge_id").text(), "cases", shown.get("id").text());
                fields = new String[] {"amount", "status", "money_outcome"};
            }
            default -> {
                return;
            }
        }
        if (at.compareTo(field(entry, "at")) < 0) {
            return;
        }
        entry.put("at", at);
        for (String name : fields) {
            entry.put(name, shown.get(name).value());
        }
        if (type[0].equals("charge")) {
            entry.put("order", shown.get("metadata").get("order_id").value());
        } else if (type[0].equals("refund")) {
            entry.put("status", type[1]); // created, succeeded or failed
        }
    }

    public static void main(String[] args) throws Exception {
        Path file = Path.of(System.getenv("ORDERS"));
        Table table = Table.read(file);
        var events = new ArrayList<Json>();
        try (var files = Files.newDirectoryStream(Path.of(System.getenv("INBOX")), "*.json")) {
            for (Path event : files) {
                events.add(Json.parse(Files.readString(event)));
            }
        }
        events.removeIf(event -> event.get("type").isNull()); // the legacy events
        events.sort(Comparator.comparing(event -> event.get("created_at").text()));
        events.forEach(event -> apply(table, event));
        for (String charge : table.rows().keySet()) {
            var row = table.at(charge);
            var cases = new Json(table.at(charge, "cases")).fields();
            boolean disputed = cases.values().stream()
                    .anyMatch(entry -> !"refunded_to_merchant".equals(entry.get("money_outcome").text()));
            if (field(row, "status").equals("paid") && row.get("released") == null && !disputed) {
                System.out.println("release order " + row.get("order") + ": " + charge + " is paid");
                row.put("released", true);
            }
            cases.forEach((id, entry) -> {
                if ("open".equals(entry.get("status").text())) {
                    System.out.println("answer " + id + ": the payer of order " + row.get("order") + " claims "
                            + entry.get("amount"));
                }
            });
        }
        table.write(file);
    }
}
