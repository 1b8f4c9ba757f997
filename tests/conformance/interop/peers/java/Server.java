import java.io.InputStream;
import java.io.OutputStream;
import java.util.concurrent.atomic.AtomicLong;
import org.eclipse.jetty.http.HttpFields;
import org.eclipse.jetty.http2.server.HTTP2CServerConnectionFactory;
import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.HttpConnectionFactory;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.util.Callback;

/**
 * An HTTP/1.1 and h2c server of Jetty. Prints its port. ../nethttp/server.go describes its paths.
 */
public class Server extends Handler.Abstract {
    private final AtomicLong cancelled = new AtomicLong();

    public static void main(String[] arguments) throws Exception {
        var server = new org.eclipse.jetty.server.Server();
        var configuration = new HttpConfiguration();
        var connector = new ServerConnector(server, new HttpConnectionFactory(configuration),
            new HTTP2CServerConnectionFactory(configuration));
        connector.setHost("127.0.0.1");
        server.addConnector(connector);
        server.setHandler(new Server());
        server.start();
        System.out.println(connector.getLocalPort());
        server.join();
    }

    @Override
    public boolean handle(Request request, Response response, Callback callback) throws Exception {
        String[] path = Request.getPathInContext(request).split("/");
        response.setStatus(200);
        switch (path[1]) {
            case "bytes" -> {
                response.getHeaders().put("content-length", path[2]);
                if (!request.getMethod().equals("HEAD")) {
                    output(response).write(new byte[Integer.parseInt(path[2])]);
                }
                callback.succeeded();
            }
            case "echo" -> {
                // The head is sent before the request has a body.
                output(response).flush();
                Content.copy(request, response, callback);
            }
            case "count" -> {
                InputStream body = Content.Source.asInputStream(request);
                long length = body.transferTo(OutputStream.nullOutputStream());
                HttpFields trailers = request.getTrailers();
                String sum = trailers == null ? null : trailers.get("x-sum");
                Content.Sink.write(response, true, length + " " + (sum == null ? "" : sum), callback);
            }
            case "trailers" -> {
                response.getHeaders().put("trailer", "X-Sum");
                response.setTrailersSupplier(() -> HttpFields.build().put("X-Sum", "4"));
                Content.Sink.write(response, true, "body", callback);
            }
            case "abort" -> {
                write(response, "half");
                Thread.sleep(50);
                callback.failed(new Exception("the app aborts"));
            }
            case "early" -> {
                // Without a body Jetty sends no response over HTTP/2, but RST_STREAM alone.
                response.setStatus(413);
                Content.Sink.write(response, true, "too large", callback);
            }
            case "hints" -> {
                response.writeInterim(103, HttpFields.build().put("link", "</style.css>; rel=preload")).get();
                callback.succeeded();
            }
            case "status" -> {
                response.setStatus(Integer.parseInt(path[2]));
                callback.succeeded();
            }
            case "hang" -> hang(response, callback);
            case "cancelled" -> Content.Sink.write(response, true, cancelled.toString(), callback);
            default -> throw new IllegalArgumentException(path[1]);
        }
        return true;
    }

    /** Writes until the client has left: over HTTP/1.1 Jetty detects that by a write alone. */
    private void hang(Response response, Callback callback) throws InterruptedException {
        try {
            while (true) {
                write(response, " ");
                Thread.sleep(20);
            }
        } catch (java.io.IOException error) {
            cancelled.incrementAndGet();
            callback.failed(error);
        }
    }

    private static OutputStream output(Response response) {
        return Content.Sink.asOutputStream(response);
    }

    private static void write(Response response, String text) throws java.io.IOException {
        output(response).write(text.getBytes());
        output(response).flush();
    }
}
