/**
 * Traffic for scripts/test-rollout, in a file of its own that a ConfigMap can hold.
 *
 *     node load.mjs serve PORT
 *     node load.mjs ask RATE URL...
 *
 * A server answers at once, and on /slow a chunk a second for half a minute. `ask` opens RATE new
 * connections a second, to the URLs in turn, and has one download of each under way at any time.
 * Every second it prints a line of JSON: what it has counted since its start.
 */
import { createServer, get } from 'node:http';
import { hostname } from 'node:os';

const chunks = 30;
const chunk = 'x'.repeat(16 * 1024);
const timeoutMs = 5000;

function serve(port) {
  const server = createServer(async ({ url }, response) => {
    if (url !== '/slow') return void response.end(hostname());
    for (let sent = 0; sent < chunks && !response.destroyed; sent += 1) {
      response.write(chunk);
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
    response.end();
  });
  server.listen(port);
}

/** Resolves to the length of the body. */
function ask(url, idleMs) {
  return new Promise((resolve, reject) => {
    // A connection of its own.
    const request = get(url, { agent: false, timeout: idleMs }, (response) => {
      let length = 0;
      response.on('data', (part) => {
        length += part.length;
      });
      response.on('error', reject);
      response.on('end', () => resolve(length));
    });
    request.on('timeout', () => request.destroy(new Error('timed out')));
    request.on('error', reject);
  });
}

const counts = { asked: 0, answered: 0, downloads: 0, downloaded: 0 };
const failures = {};

function failed(url, { message }) {
  const words = `${url}: ${message}`;
  if (!(words in failures)) console.error(new Date().toISOString(), words);
  failures[words] = (failures[words] ?? 0) + 1;
}

function request(url) {
  counts.asked += 1;
  ask(url, timeoutMs).then(
    () => {
      counts.answered += 1;
    },
    (error) => failed(url, error),
  );
}

async function download(url) {
  for (;;) {
    counts.downloads += 1;
    try {
      const length = await ask(`${url}slow`, timeoutMs);
      if (length !== chunks * chunk.length) throw new Error(`${length} bytes`);
      counts.downloaded += 1;
    } catch (error) {
      failed(`${url}slow`, error);
    }
  }
}

function run(rate, urls) {
  let next = 0;
  setInterval(() => request(urls[next++ % urls.length]), 1000 / rate);
  setInterval(() => console.log(JSON.stringify({ ...counts, failures })), 1000);
  for (const url of urls) void download(url);
}

// Process 1 of a container is ended by no signal that it does not expect.
process.on('SIGTERM', () => process.exit(0));

const [mode, number, ...urls] = process.argv.slice(2);
if (mode === 'serve') serve(Number(number));
else run(Number(number), urls);
