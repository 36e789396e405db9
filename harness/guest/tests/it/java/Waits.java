import com.sun.net.httpserver.HttpServer;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.SocketTimeoutException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse.BodyHandlers;
import java.net.http.HttpTimeoutException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Waits in all ways of the library, and prints the milliseconds since the start after each. */
class Waits {
    private static final long START = System.nanoTime();

    private static void at(String what) {
        System.out.println(what + " " + (System.nanoTime() - START) / 1_000_000);
    }

    public static void main(String[] arguments) throws Exception {
        var lock = new Object();
        synchronized (lock) {
            lock.wait(5_000);
        }
        at("wait");
        LockSupport.parkNanos(3_000_000_000L);
        at("park");
        new LinkedBlockingQueue<String>().poll(10, TimeUnit.SECONDS);
        at("queue");
        try {
            new CompletableFuture<String>().orTimeout(20, TimeUnit.SECONDS).join();
        } catch (CompletionException expected) {
            at("future");
        }
        var ticks = new CountDownLatch(4);
        new Timer(true).scheduleAtFixedRate(new TimerTask() {
            @Override
            public void run() {
                ticks.countDown();
            }
        }, 30_000, 30_000);
        ticks.await();
        at("timer");
        http();
        var kept = new ArrayList<byte[]>();
        for (int round = 0; round < 10_000; round++) {
            kept.add(new byte[20_000]);
            if (kept.size() > 1000) {
                kept.clear();
            }
        }
        System.gc();
        at("garbage");
        var child = new ProcessBuilder("sleep", "100").start();
        if (!child.waitFor(30, TimeUnit.SECONDS)) {
            at("process timeout");
        }
        child.destroy();
        new ProcessBuilder("sleep", "50").start().waitFor();
        at("process");
        System.exit(0);
    }

    /** A server that answers after 90 seconds, and clients with and without limits. */
    private static void http() throws Exception {
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.setExecutor(Executors.newCachedThreadPool());
        server.createContext("/", exchange -> {
            LockSupport.parkNanos(90_000_000_000L);
            exchange.sendResponseHeaders(200, 2);
            exchange.getResponseBody().write("ok".getBytes());
            exchange.close();
        });
        server.start();
        var uri = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/");
        var client = HttpClient.newHttpClient();
        at("http " + client.send(HttpRequest.newBuilder(uri).build(), BodyHandlers.ofString()).body());
        try {
            var limited = HttpRequest.newBuilder(uri).timeout(Duration.ofSeconds(15)).build();
            client.send(limited, BodyHandlers.ofString());
        } catch (HttpTimeoutException expected) {
            at("http timeout");
        }
        var connection = (HttpURLConnection) uri.toURL().openConnection();
        connection.setReadTimeout(12_000);
        try {
            connection.getInputStream().read();
        } catch (SocketTimeoutException expected) {
            at("socket timeout");
        }
        server.stop(0);
    }
}
