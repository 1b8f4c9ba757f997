// An HTTP/1.1 or HTTP/2 server of Node's standard library:  node server.mjs 1|2
// Prints its port. ../nethttp/server.go describes its paths.
import http from 'node:http';
import http2 from 'node:http2';

let cancelled = 0;

const paths = {
  bytes(request, response, length) {
    response.writeHead(200, { 'content-length': length });
    response.end(request.method === 'HEAD' ? undefined : Buffer.alloc(Number(length)));
  },
  echo(request, response) {
    response.writeHead(200);
    response.flushHeaders?.();
    request.pipe(response);
  },
  count(request, response) {
    let length = 0;
    request.on('data', (data) => { length += data.length; });
    request.on('end', () => response.end(`${length} ${request.trailers['x-sum'] ?? ''}`));
  },
  trailers(_, response) {
    response.setHeader('trailer', 'X-Sum');
    response.write('body');
    response.addTrailers({ 'x-sum': '4' });
    response.end();
  },
  abort(_, response) {
    response.write('half');
    setTimeout(() => {
      if (response.stream) response.stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
      else response.socket.resetAndDestroy();
    }, 50);
  },
  early(_, response) {
    response.writeHead(413);
    response.end();
  },
  hints(_, response) {
    response.writeEarlyHints({ link: '</style.css>; rel=preload' });
    response.writeHead(200);
    response.end();
  },
  status(_, response, status) {
    response.writeHead(Number(status));
    response.end();
  },
  hang(_, response) {
    response.writeHead(200);
    response.flushHeaders?.();
    response.write(' ');
    response.on('close', () => { cancelled += 1; });
  },
  cancelled(_, response) {
    response.end(String(cancelled));
  },
};

function handle(request, response) {
  const [, name, argument] = request.url.split('/');
  // A stream that was reset emits an error.
  request.on('error', () => {});
  response.on('error', () => {});
  paths[name](request, response, argument);
}

const server = process.argv[2] === '2' ? http2.createServer(handle) : http.createServer(handle);
server.listen(0, '127.0.0.1', () => console.log(server.address().port));
