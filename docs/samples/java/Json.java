// Reads and writes JSON. Use a library such as Jackson in your program.

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A value of JSON: a Map, List, String, BigDecimal or Boolean, or null. */
record Json(Object value) {
    /** Throws an IllegalArgumentException unless the whole text is one value. */
    static Json parse(String text) {
        var reader = new Reader(text);
        Object value = reader.value(0);
        if (reader.next() != Reader.END) {
            throw reader.malformed();
        }
        return new Json(value);
    }

    private static final class Reader {
        private static final char END = 0;
        private static final int MAX_DEPTH = 128;
        private final String text;
        private int at;

        Reader(String text) {
            this.text = text;
        }

        IllegalArgumentException malformed() {
            return new IllegalArgumentException("not JSON at character " + at);
        }

        char peek() {
            return at < text.length() ? text.charAt(at) : END;
        }

        /** Takes the next character that is not a space. */
        char next() {
            while (" \t\r\n".indexOf(peek()) >= 0) {
                at++;
            }
            char next = peek();
            at++;
            return next;
        }

        Object value(int depth) {
            char first = next();
            if (depth > MAX_DEPTH) {
                throw malformed();
            }
            if (first == '"') {
                return string();
            }
            if (first != '{' && first != '[') {
                at--;
                return word();
            }
            char end = first == '{' ? '}' : ']';
            var fields = new LinkedHashMap<String, Object>();
            var items = new ArrayList<Object>();
            char mark = next();
            if (mark != end) {
                at--;
                do {
                    if (first == '[') {
                        items.add(value(depth + 1));
                    } else if (next() == '"') {
                        String name = string();
                        if (next() != ':') {
                            throw malformed();
                        }
                        fields.put(name, value(depth + 1));
                    } else {
                        throw malformed();
                    }
                    mark = next();
                } while (mark == ',');
            }
            if (mark != end) {
                throw malformed();
            }
            return first == '{' ? fields : items;
        }

        String string() {
            var string = new StringBuilder();
            for (char unit = peek(); unit != '"'; unit = peek()) {
                at++;
                if (unit < ' ') {
                    throw malformed();
                }
                string.append(unit == '\\' ? escaped() : unit);
            }
            at++;
            return string.toString();
        }

        char escaped() {
            char unit = peek();
            at++;
            int known = "bfnrt\"\\/".indexOf(unit);
            if (known >= 0) {
                return "\b\f\n\r\t\"\\/".charAt(known);
            }
            if (unit != 'u' || at + 4 > text.length()) {
                throw malformed();
            }
            at += 4;
            return (char) Integer.parseInt(text.substring(at - 4, at), 16);
        }

        Object word() {
            int start = at;
            while (Character.isLetterOrDigit(peek()) || "+-.".indexOf(peek()) >= 0) {
                at++;
            }
            String word = text.substring(start, at);
            return switch (word) {
                case "null" -> null;
                case "true" -> true;
                case "false" -> false;
                default -> new BigDecimal(word);
            };
        }
    }

    /** The field of an object, or a value of null. */
    Json get(String name) {
        return new Json(value instanceof Map<?, ?> fields ? fields.get(name) : null);
    }

    boolean isNull() {
        return value == null;
    }

    /** The string, or null. */
    String text() {
        return value instanceof String text ? text : null;
    }

    long number() {
        return ((BigDecimal) value).longValueExact();
    }

    List<Json> items() {
        return ((List<?>) value).stream().map(Json::new).toList();
    }

    Map<String, Json> fields() {
        var fields = new LinkedHashMap<String, Json>();
        ((Map<?, ?>) value).forEach((name, field) -> fields.put((String) name, new Json(field)));
        return fields;
    }

    @Override
    public String toString() {
        var text = new StringBuilder();
        write(text, value);
        return text.toString();
    }

    private static void write(StringBuilder text, Object value) {
        String separator = "";
        if (value instanceof Map<?, ?> fields) {
            text.append('{');
            for (var field : fields.entrySet()) {
                text.append(separator);
                write(text, field.getKey());
                text.append(':');
                write(text, field.getValue());
                separator = ",";
            }
            text.append('}');
        } else if (value instanceof List<?> items) {
            text.append('[');
            for (Object item : items) {
                text.append(separator);
                write(text, item);
                separator = ",";
            }
            text.append(']');
        } else if (value instanceof String string) {
            text.append('"');
            string.chars().forEach(unit -> text.append(
                    unit < ' ' || unit == '"' || unit == '\\' ? "\\u%04x".formatted(unit) : Character.toString(unit)));
            text.append('"');
        } else {
            text.append(value);
        }
    }
}
