package ratekeeper.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Line protocol for Redisson: one command per line on standard input, one reply per line on standard output.
 *
 * <pre>
 *   java -cp 'jars/*' ratekeeper.interop.Main redis://127.0.0.1:6379
 *   tryset api OVERALL 10 1000 0      →  ok true
 *   try api 3                         →  ok true
 *   nonsense                          →  error IllegalArgumentException: no command `nonsense`
 * </pre>
 *
 * Words are separated by one space; replies are in order. The program ends with its input.
 */
public final class Main {
    private Main() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        Config config = new Config();
        config.useSingleServer().setAddress(args[0]).setConnectionMinimumIdleSize(1).setConnectionPoolSize(8);
        RedissonClient client = Redisson.create(config);
        try {
            Limiters limiters = new Limiters(client);
            out.println("ok " + client.getId());
            BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                out.println(reply(limiters, line));
            }
        } finally {
            client.shutdown();
        }
    }

    private static String reply(Limiters limiters, String line) {
        try {
            return "ok " + limiters.run(line.split(" "));
        } catch (Throwable error) {
            // Unwraps the exceptions of reflection.
            Throwable cause = error;
            while (cause.getCause() != null && cause instanceof ReflectiveOperationException) {
                cause = cause.getCause();
            }
            String text = String.valueOf(cause.getMessage()).replace('\n', ' ').replace('\r', ' ');
            return "error " + cause.getClass().getSimpleName() + ": " + text;
        }
    }
}
