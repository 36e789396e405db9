import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * Tests with the HTTP client of the JDK, a clock that they turn, and real controllers. {@code java DrainTest.java} runs
 * them (JDK 17 or later, no packages); {@code plumbline} must be in PATH, or PLUMBLINE must name it. The class
 * {@link Plumbline} is for copying into projects with JUnit and a client library.
 */
public class DrainTest {
    private static final String PODS = "/api/v1/namespaces/default/pods";

    interface WorldTest {
        void run(Plumbline.World world) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, WorldTest> tests = new LinkedHashMap<>();
        tests.put("an orphan waits for forty seconds", DrainTest::anOrphanWaitsForFortySeconds);
        tests.put("a budget refuses the second eviction", DrainTest::aBudgetRefusesTheSecondEviction);
        tests.put("a fault hits one request", DrainTest::aFaultHitsOneRequest);
        tests.put("a watch brings events", DrainTest::aWatchBringsEvents);
        List<String> failed = new ArrayList<>();
        try (var server = new Plumbline("--like", "kind")) {
            for (var test : tests.entrySet()) {
                try (var world = server.world()) {
                    try {
                        test.getValue().run(world);
                        System.out.println("ok: " + test.getKey());
                    } catch (Exception | AssertionError error) {
                        failed.add(test.getKey());
                        System.out.println("FAILED: " + test.getKey());
                        error.printStackTrace(System.out);
                        System.out.println(world.transcript());
                    }
                }
            }
        }
        System.out.println(tests.size() - failed.size() + " of " + tests.size() + " passed");
        System.exit(failed.isEmpty() ? 0 : 1);
    }

    // ANCHOR: orphan
    static void anOrphanWaitsForFortySeconds(Plumbline.World world) throws Exception {
        check(201, world.send("POST", PODS, pod("orphan", "gone")));
        world.advance("59s");
        check(200, world.send("GET", PODS + "/orphan", ""));
        world.advance("21s");
        check(404, world.send("GET", PODS + "/orphan", ""));
        contains(world.transcript(), "podgc          DELETE pods/orphan 200");
    }
    // ANCHOR_END: orphan

    static void aBudgetRefusesTheSecondEviction(Plumbline.World world) throws Exception {
        for (var name : List.of("a", "b")) {
            check(201, world.send("POST", PODS, pod(name, "node-1")));
        }
        var budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
        check(201, world.send("POST", budgets, """
            {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
             "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}"""));
        world.advance("10s");
        world.save("two pods");
        contains(world.send("GET", budgets + "/web", "").body(), "\"disruptionsAllowed\":1");
        check(201, world.send("POST", PODS + "/a/eviction", eviction("a")));
        check(429, world.send("POST", PODS + "/b/eviction", eviction("b")));
        world.advance("1m");
        check(404, world.send("GET", PODS + "/a", ""));
        world.restore("two pods");
        check(200, world.send("GET", PODS + "/a", ""));
    }

    static void aFaultHitsOneRequest(Plumbline.World world) throws Exception {
        world.fault("""
            {"on": "LIST pods", "reply": 503, "count": 1}""");
        check(503, world.send("GET", PODS, ""));
        check(200, world.send("GET", PODS, ""));
    }

    static void aWatchBringsEvents(Plumbline.World world) throws Exception {
        var watch = world.lines(PODS + "?watch=true").iterator();
        check(201, world.send("POST", PODS, pod("a", "node-1")));
        contains(watch.next(), "\"type\":\"ADDED\"");
        world.advance("5s");
        for (var line = watch.next(); !line.contains("\"phase\":\"Running\""); line = watch.next()) {
            contains(line, "\"type\":\"MODIFIED\"");
        }
    }

    static String pod(String name, String node) {
        return """
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "%s", "labels": {"app": "web"}},
             "spec": {"nodeName": "%s", "containers": [{"name": "c", "image": "i"}]}}""".formatted(name, node);
    }

    static String eviction(String name) {
        return """
            {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "%s"}}""".formatted(name);
    }

    static void check(int status, HttpResponse<String> reply) {
        if (reply.statusCode() != status) {
            throw new AssertionError("expected " + status + ", got " + reply.statusCode() + ": " + reply.body());
        }
    }

    static void contains(String text, String part) {
        if (!text.contains(part)) {
            throw new AssertionError("no " + part + " in " + text);
        }
    }
}

/** A running {@code plumbline serve} with a manual clock, over HTTPS. */
class Plumbline implements AutoCloseable {
    private final Process process;
    private final HttpClient client;
    private final String url;
    private final String token;
    private int worlds;

    /** Starts the program with flags such as {@code --like kind}. */
    Plumbline(String... flags) throws Exception {
        var program = System.getenv().getOrDefault("PLUMBLINE", "plumbline");
        var folder = Files.createTempDirectory("plumbline");
        var kubeconfig = folder.resolve("kubeconfig");
        var command = new ArrayList<>(List.of(program, "serve", "--clock", "manual", "--kubeconfig", "" + kubeconfig));
        command.addAll(List.of(flags));
        process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
        // It prints a line when it is ready.
        var ready = process.inputReader().readLine();
        if (ready == null) {
            throw new IOException(command + " ended with " + process.waitFor() + "; its error output has the reason");
        }
        var text = Files.readString(kubeconfig);
        Files.delete(kubeconfig);
        Files.delete(folder);
        url = ready.split(" ")[1];
        token = entry(text, "token");
        client = HttpClient.newBuilder().sslContext(trust(entry(text, "certificate-authority-data"))).build();
    }

    /** Creates a world: objects, clock and controllers of its own. */
    World world() throws Exception {
        var name = "java-" + ++worlds;
        control("POST", url + "/plumbline/worlds", "{\"name\": \"" + name + "\"}");
        return new World(name);
    }

    @Override
    public void close() throws Exception {
        process.destroy();
        process.waitFor();
    }

    /** An API server with its own objects and clock. */
    class World implements AutoCloseable {
        private final String name;

        World(String name) {
            this.name = name;
        }

        /** Returns the URL for any client; {@code POST /plumbline/worlds} returns a kubeconfig, too. */
        String url() {
            return url + "/plumbline/worlds/" + name;
        }

        /** Moves the clock, for example by "2m"; returns when everything has come to rest. */
        void advance(String duration) throws Exception {
            control("POST", url() + "/plumbline/clock", "{\"advance\": \"" + duration + "\"}");
        }

        /** Arms a fault rule, in the form of /plumbline/openapi.json. */
        void fault(String rule) throws Exception {
            control("POST", url() + "/plumbline/faults", rule);
        }

        /** Saves the state under a name. */
        void save(String name) throws Exception {
            control("POST", url() + "/plumbline/state", "{\"save\": \"" + name + "\"}");
        }

        /** Returns to a saved state. */
        void restore(String name) throws Exception {
            control("POST", url() + "/plumbline/state", "{\"restore\": \"" + name + "\"}");
        }

        /** Returns the requests and changes as text. */
        String transcript() throws Exception {
            return control("GET", url() + "/plumbline/transcript?format=text", "");
        }

        /** Sends a request to the Kubernetes API, as client libraries do. */
        HttpResponse<String> send(String method, String path, String body) throws Exception {
            return client.send(request(method, url() + path, body), HttpResponse.BodyHandlers.ofString());
        }

        /** Returns the lines of a watch as they arrive. */
        Stream<String> lines(String path) throws Exception {
            return client.send(request("GET", url() + path, ""), HttpResponse.BodyHandlers.ofLines()).body();
        }

        /** Removes the world. */
        @Override
        public void close() throws Exception {
            control("DELETE", url(), "");
        }
    }

    private String control(String method, String address, String body) throws Exception {
        var reply = client.send(request(method, address, body), HttpResponse.BodyHandlers.ofString());
        if (reply.statusCode() >= 300) {
            throw new IOException(method + " " + address + ": " + reply.body());
        }
        return reply.body();
    }

    private HttpRequest request(String method, String address, String body) {
        return HttpRequest.newBuilder(URI.create(address)).header("Authorization", "Bearer " + token)
            .header("Content-Type", "application/json")
            .method(method, HttpRequest.BodyPublishers.ofString(body)).build();
    }

    /** Returns an entry of a kubeconfig. */
    private static String entry(String kubeconfig, String name) {
        var found = Pattern.compile("\\b" + name + ": *\"?([^\"\\s]+)").matcher(kubeconfig);
        if (!found.find()) {
            throw new IllegalStateException("no " + name + " in the kubeconfig");
        }
        return found.group(1);
    }

    private static SSLContext trust(String authority) throws Exception {
        var certificate = new ByteArrayInputStream(Base64.getDecoder().decode(authority));
        var trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null, null);
        trusted.setCertificateEntry("plumbline", CertificateFactory.getInstance("X.509").generateCertificate(certificate));
        var managers = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        managers.init(trusted);
        var context = SSLContext.getInstance("TLS");
        context.init(null, managers.getTrustManagers(), null);
        return context;
    }
}
