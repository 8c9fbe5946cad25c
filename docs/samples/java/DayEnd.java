// Compares a day of the shop's table with the service, and prints each difference. Ends with 1 if there is one.
// Usage: SERVICE_URL=… API_KEY=… ORDERS=orders.json java -cp classes DayEnd 2026-11-21 OPENING
//
// The day is one in São Paulo. OPENING is all money of the wallet at its start: the closing of the day before, or 0.

import java.nio.file.Path;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.TreeSet;

class DayEnd {
    private static final Map<String, String> OUTCOMES = Map.of("REFUNDED", "succeeded", "FAILED", "failed");
    private static final Json NONE = new Json(null);
    private static final List<String> DIFFERENCES = new ArrayList<>();

    private static void compare(String what, Object ours, Object theirs) {
        if (!Objects.equals(ours, theirs)) {
            DIFFERENCES.add(what + ": " + ours + " in the table, " + theirs + " at the service");
        }
    }

    private static long sum(List<Json> movements, String end) {
        return movements.stream()
                .filter(entry -> entry.get("created_at").text().compareTo(end) < 0)
                .mapToLong(entry -> entry.get("net").number())
                .sum();
    }

    public static void main(String[] args) throws Exception {
        String day = args[0];
        long opening = Long.parseLong(args[1]);
        // São Paulo is 3 hours behind UTC all year. All times have the same form, so they compare as text.
        String start = day + "T03:00:00.000Z";
        String end = LocalDate.parse(day).plusDays(1) + "T03:00:00.000Z";
        Table table = Table.read(Path.of(System.getenv("ORDERS")));

        // 1. The charges of the day. A MED case changes the charge without an event of the charge.
        var charges = new HashMap<String, Json>();
        for (Json charge : Client.items("/v1/charges", "created_after=" + day + "&created_before=" + day)) {
            charges.put(charge.get("id").text(), charge);
        }
        var ours = new HashSet<String>();
        table.rows().forEach((charge, row) -> {
            String createdAt = Objects.requireNonNullElse(row.get("created_at").text(), "");
            if (createdAt.compareTo(start) >= 0 && createdAt.compareTo(end) < 0) {
                ours.add(charge);
            }
        });
        var both = new TreeSet<>(charges.keySet());
        both.addAll(ours);
        for (String id : both) {
            Json row = table.row(id);
            Json shown = charges.getOrDefault(id, NONE);
            compare(id + " amount", row.get("amount").value(), shown.get("amount").value());
            if (!"disputed".equals(shown.get("status").text()) || row.get("cases").isNull()) {
                compare(id + " status", row.get("status").text(), shown.get("status").text());
            }
        }

        // 2. The statement since the start of the day, and the refunds that it names.
        var movements = Client.items("/v1/wallets/transactions", "created_after=" + day);
        var settled = new HashMap<String, Object>();
        var refunded = new TreeSet<String>();
        for (Json entry : movements) {
            if (entry.get("type").text().equals("settlement")) {
                settled.put(entry.get("charge_id").text(), entry.get("amount").value());
            }
            if (!entry.get("refund_id").isNull()) {
                refunded.add(entry.get("charge_id").text());
            }
        }
        var credited = new TreeSet<>(settled.keySet());
        ours.stream().filter(id -> "paid".equals(table.row(id).get("status").text())).forEach(credited::add);
        for (String id : credited) {
            compare(id + " credited", table.row(id).get("amount").value(), settled.get(id));
        }
        for (String id : refunded) {
            for (Json refund : Client.call("GET", "/v1/payments/" + id + "/refunds", null).get("data").items()) {
                String refundId = refund.get("id").text();
                compare(
                        refundId + " of " + id,
                        table.row(id).get("refunds").get(refundId).get("status").text(),
                        OUTCOMES.getOrDefault(refund.get("status").text(), "created"));
            }
        }

        // 3. The balance: the opening and all movements since then.
        Json balance = Client.call("GET", "/v1/wallets/balance", null);
        long money = balance.get("available").number() + balance.get("pending").number()
                + balance.get("retained").number();
        long expected = opening + sum(movements, "9999");
        if (money != expected) {
            DIFFERENCES.add("the wallet has " + money + ", the opening and the statement make " + expected);
        }

        // 4. The MED cases since the start of the day, and those that the table has as unfinished. The API decides,
        // because an event of a case can be lost.
        var cases = new TreeMap<String, Json>();
        for (Json shown : Client.items("/v1/med/cases", "created_after=" + day)) {
            cases.put(shown.get("id").text(), shown);
        }
        for (Json row : table.rows().values()) {
            if (!row.get("cases").isNull()) {
                for (var noted : row.get("cases").fields().entrySet()) {
                    String status = noted.getValue().get("status").text();
                    if (!cases.containsKey(noted.getKey()) && (status.equals("open") || status.equals("appealed"))) {
                        cases.put(noted.getKey(), Client.call("GET", "/v1/med/cases/" + noted.getKey(), null));
                    }
                }
            }
        }
        cases.forEach((id, shown) -> {
            Json noted = table.row(shown.get("charge_id").text()).get("cases").get(id);
            for (String name : List.of("status", "money_outcome")) {
                compare(id + " " + name, noted.get(name).text(), shown.get(name).text());
            }
            if (shown.get("status").text().equals("open")) {
                String deadline =
                        Objects.requireNonNullElse(shown.get("response_deadline").text(), "its unknown deadline");
                System.out.println("answer " + id + " before " + deadline);
            }
        });

        System.out.println(DIFFERENCES.isEmpty() ? day + ": no difference" : String.join("\n", DIFFERENCES));
        System.out.println("closing " + (opening + sum(movements, end)));
        System.exit(DIFFERENCES.isEmpty() ? 0 : 1);
    }
}
