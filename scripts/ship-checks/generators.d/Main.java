import java.util.Map;
import org.openapitools.client.ApiClient;
import org.openapitools.client.api.DefaultApi;
import org.openapitools.client.model.Check;

/** Calls a server with the client that openapi-generator generated: Main SERVER USER */
public class Main {
    public static void main(String[] args) throws Exception {
        ApiClient client = new ApiClient();
        client.updateBaseUri(args[0]);
        DefaultApi api = new DefaultApi(client);
        for (int i = 0; i < 4; i++) {
            var decision = api.check(new Check().domain("daily").descriptor(Map.of("user", args[1])));
            long late = 7L * 3600 * 1_000_000;
            System.out.println(decision.getVerdict() + " " + decision.getRemaining() + " " + decision.getLimit() + " "
                    + (decision.getResetAfterUs() > late) + " " + (decision.getRetryAfterUs() > late));
        }
    }
}
