// Verifies the signature of a canonical event.

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.time.Instant;
import java.util.HexFormat;
import java.util.regex.Pattern;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

class Signature {
    // The limit of the digits keeps the number in the range of a long.
    private static final Pattern FORM = Pattern.compile("t=([0-9]{1,12}),v1=([0-9a-f]{64})");

    /** `header` is X-Service-Signature, or null. `body` are the bytes as they arrived. */
    static boolean isOurs(String secret, String header, byte[] body) throws GeneralSecurityException {
        var fields = FORM.matcher(header == null ? "" : header);
        if (!fields.matches() || Math.abs(Instant.now().getEpochSecond() - Long.parseLong(fields.group(1))) > 300) {
            return false;
        }
        var mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(secret.getBytes(StandardCharsets.UTF_8), "HmacSHA256"));
        mac.update((fields.group(1) + ".").getBytes(StandardCharsets.UTF_8));
        return MessageDigest.isEqual(mac.doFinal(body), HexFormat.of().parseHex(fields.group(2)));
    }
}
