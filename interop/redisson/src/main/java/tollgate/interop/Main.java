package tollgate.interop;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson, line by line: a command on standard input, its answer on standard output.
 *
 * <pre>
 *   java -cp 'jars/*' tollgate.interop.Main redis://127.0.0.1:6379
 *   tryset api OVERALL 10 1000 0      →  ok true
 *   try api 3                         →  ok true
 *   nonsense                          →  error IllegalArgumentException: no command `nonsense`
 * </pre>
 *
 * Words are separated by one space, and there is one answer per line, in order. It ends with its input.
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
                out.println(answer(limiters, line));
            }
        } finally {
            client.shutdown();
        }
    }

    private static String answer(Limiters limiters, String line) {
        try {
            return "ok " + limiters.run(line.split(" "));
        } catch (Throwable error) {
            // What the user of Redisson would see lies under the wrapping of reflection.
            Throwable cause = error;
            while (cause.getCause() != null && cause instanceof ReflectiveOperationException) {
                cause = cause.getCause();
            }
            String text = String.valueOf(cause.getMessage()).replace('\n', ' ').replace('\r', ' ');
            return "error " + cause.getClass().getSimpleName() + ": " + text;
        }
    }
}
