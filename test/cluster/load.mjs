/**
 * Traffic for scripts/test-rollout, in a file of its own that a ConfigMap can hold.
 *
 *     node load.mjs serve PORT
 *     node load.mjs ask RATE URL...
 *
 * A server answers at once with its name, on /from also with the address that it sees of the client,
 * and on /slow with a chunk a second for half a minute. `ask` opens RATE new
 * connections a second, to the URLs in turn, and has one download of each under way at any time.
 * Every second it prints a line of JSON: what it has counted since its start. Each failure is a line
 * of JSON on stderr; moved-flows.ts reads these.
 */
import { createServer, get } from 'node:http';
import { hostname } from 'node:os';

const chunks = 30;
const chunk = 'x'.repeat(16 * 1024);
const timeoutMs = 5000;
/** Between a download that failed and the next. */
const pauseMs = 200;

function serve(port) {
  const server = createServer(async ({ socket, url }, response) => {
    if (url === '/from') return void response.end(`${hostname()} ${socket.remoteAddress}\n`);
    if (url !== '/slow') return void response.end(hostname());
    for (let sent = 0; sent < chunks && !response.destroyed; sent += 1) {
      response.write(chunk);
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
    response.end();
  });
  server.listen(port);
}

/**
 * Resolves to the length of the body and the connection. Resolves to undefined if the connection
 * fails, after one call of `failed`.
 */
function ask(url, idleMs, failed) {
  // The fields of FailedConnection in moved-flows.ts.
  const connection = { url, fromMs: Date.now(), source: '', sourcePort: 0, target: '' };
  return new Promise((resolve) => {
    let isOver = false;
    const fail = ({ message }) => {
      if (isOver) return;
      isOver = true;
      failed({ ...connection, untilMs: Date.now(), message });
      resolve(undefined);
    };
    // A connection of its own.
    const request = get(url, { agent: false, timeout: idleMs }, (response) => {
      let length = 0;
      response.on('data', (part) => {
        length += part.length;
      });
      response.on('error', fail);
      response.on('end', () => resolve({ length, connection }));
    });
    request.on('socket', (socket) => {
      socket.on('connect', () => {
        connection.source = socket.localAddress;
        connection.sourcePort = socket.localPort;
        connection.target = socket.remoteAddress;
      });
    });
    request.on('timeout', () => request.destroy(new Error('timed out')));
    request.on('error', fail);
  });
}

const counts = { asked: 0, answered: 0, downloads: 0, downloaded: 0 };
const failures = {};

function failed(failure) {
  console.error(JSON.stringify(failure));
  const words = `${failure.url}: ${failure.message}`;
  failures[words] = (failures[words] ?? 0) + 1;
}

async function request(url) {
  counts.asked += 1;
  if ((await ask(url, timeoutMs, failed)) !== undefined) counts.answered += 1;
}

async function download(url) {
  for (;;) {
    counts.downloads += 1;
    const answer = await ask(`${url}slow`, timeoutMs, failed);
    if (answer === undefined) {
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
      continue;
    }
    const { connection, length } = answer;
    if (length === chunks * chunk.length) counts.downloaded += 1;
    else failed({ ...connection, untilMs: Date.now(), message: `${length} bytes` });
  }
}

function run(rate, urls) {
  let next = 0;
  setInterval(() => void request(urls[next++ % urls.length]), 1000 / rate);
  setInterval(() => console.log(JSON.stringify({ ...counts, failures })), 1000);
  for (const url of urls) void download(url);
}

// Process 1 of a container is ended by no signal that it does not expect.
process.on('SIGTERM', () => process.exit(0));

const [mode, number, ...urls] = process.argv.slice(2);
if (mode === 'serve') serve(Number(number));
else run(Number(number), urls);
