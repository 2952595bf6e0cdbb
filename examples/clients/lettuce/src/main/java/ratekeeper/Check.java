package ratekeeper;

import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Decisions over the Redis protocol, with Lettuce.
 *
 * <pre>mvn package &amp;&amp; java -cp 'target/*' ratekeeper.Check USER [redis://127.0.0.1:6380]</pre>
 */
public final class Check {
    /** Commands that Lettuce has no method for. */
    private enum Command implements ProtocolKeyword {
        CHECK("RK.CHECK"),
        THROTTLE("CL.THROTTLE");

        private final byte[] bytes;

        Command(String name) {
            bytes = name.getBytes(StandardCharsets.US_ASCII);
        }

        @Override
        public byte[] getBytes() {
            return bytes;
        }
    }

    /** An answer; times in microseconds. */
    private record Decision(String verdict, long remaining, long limit, long retryAfterUs) {
        boolean allowed() {
            return verdict.equals("allow");
        }
    }

    private final StatefulRedisConnection<String, String> connection;

    private Check(StatefulRedisConnection<String, String> connection) {
        this.connection = connection;
    }

    /** Decides one request by the rules of a domain. */
    private Decision check(String domain, String key) {
        List<Object> reply = ask(Command.CHECK, domain, key);
        Map<String, Object> fields = new HashMap<>();
        for (int i = 0; i < reply.size(); i += 2) {
            fields.put((String) reply.get(i), reply.get(i + 1));
        }
        return new Decision((String) fields.get("verdict"), number(fields.get("remaining")),
                number(fields.get("limit")), number(fields.get("retry_after_us")));
    }

    private List<Object> ask(Command command, Object... arguments) {
        CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8);
        for (Object argument : arguments) {
            args.add(argument.toString());
        }
        return connection.sync().dispatch(command, new ArrayOutput<>(StringCodec.UTF8), args);
    }

    /** A number that is null if no rule applies. */
    private static long number(Object value) {
        return value == null ? 0 : (Long) value;
    }

    private void run(String user) throws InterruptedException {
        for (int i = 0; i < 4; i++) {
            Decision decision = check("daily", user);
            System.out.println(decision.allowed()
                    ? "daily: allow, " + decision.remaining() + " of " + decision.limit() + " left"
                    : "daily: " + decision.verdict() + ", retry after "
                            + (decision.retryAfterUs() + 999_999) / 1_000_000 + " s");
        }

        for (int i = 0; i < 3; i++) {
            Decision decision;
            while (!(decision = check("paced", user)).allowed()) {
                Thread.sleep(Duration.ofNanos(1_000 * decision.retryAfterUs()).toMillis() + 1);
            }
            // The request itself is sent here.
        }
        System.out.println("paced: 3 requests sent");

        // The same with the limit in the call, as with redis-cell: 30 a minute and a burst of 15 beyond the first.
        List<Object> reply = ask(Command.THROTTLE, "call:" + user, 15, 30, 60);
        System.out.println("throttle: " + (number(reply.get(0)) == 1 ? "deny" : "allow") + ", " + reply.get(2) + " of "
                + reply.get(1) + " left");
    }

    public static void main(String[] args) throws InterruptedException {
        RedisURI uri = RedisURI.create(args.length > 1 ? args[1] : "redis://127.0.0.1:6380");
        uri.setTimeout(Duration.ofSeconds(1));
        // One connection for all threads.
        try (RedisClient client = RedisClient.create(uri); var connection = client.connect()) {
            new Check(connection).run(args[0]);
        }
    }
}
