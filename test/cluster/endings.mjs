/**
 * Traffic for scripts/test-endings, in a file of its own that a ConfigMap can hold.
 *
 *     node endings.mjs serve PORT
 *     node endings.mjs ask HOST PORT
 *     node endings.mjs summary FILE...
 *
 * A server answers each line with its name. It serves for eight seconds after SIGTERM, and ends.
 * `ask` keeps long connections, on which it asks twice a second, and makes 20 short ones a second.
 * Every second it prints a line of JSON. `summary` adds up what several clients have printed.
 */
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { hostname } from 'node:os';

const longConnections = 8;
const silentMs = 60_000;
const drainMs = 8000;

function serve(port) {
  const server = createServer((socket) => {
    socket.on('data', () => socket.write(`${hostname()}\n`));
    socket.on('error', () => {});
  });
  server.listen(port);
  process.on('SIGTERM', () => setTimeout(() => process.exit(0), drainMs));
}

/** `ended`: how long connections ended; `longestMs`: the longest time without answers before. */
const counts = { asked: 0, answered: 0, ended: { reset: 0, closed: 0, silent: 0 }, longestMs: 0 };
const failures = {};
let answers = {};

function failed(words) {
  failures[words] = (failures[words] ?? 0) + 1;
}

function short(host, port) {
  counts.asked += 1;
  const socket = connect({ host, port });
  socket.setTimeout(5000, () => socket.destroy(new Error('timed out')));
  socket.on('error', ({ message }) => failed(message));
  socket.on('data', (line) => {
    const name = line.toString().trim();
    answers[name] = (answers[name] ?? 0) + 1;
    counts.answered += 1;
    socket.destroy();
  });
  socket.write('ask\n');
}

function long(host, port) {
  const socket = connect({ host, port });
  let answeredMs = Date.now();
  let how = 'closed';
  const timer = setInterval(() => {
    if (Date.now() - answeredMs < silentMs) return void socket.write('ask\n');
    how = 'silent';
    socket.destroy();
  }, 500);
  socket.on('data', () => {
    answeredMs = Date.now();
  });
  socket.on('error', ({ code }) => {
    if (code === 'ECONNRESET') how = 'reset';
    else failed(`long: ${code}`);
  });
  socket.on('close', () => {
    clearInterval(timer);
    counts.ended[how] += 1;
    counts.longestMs = Math.max(counts.longestMs, Date.now() - answeredMs);
    setTimeout(() => long(host, port), 100);
  });
}

function ask(host, port) {
  for (let i = 0; i < longConnections; i += 1) long(host, port);
  setInterval(() => short(host, port), 50);
  setInterval(() => {
    const second = Math.floor(Date.now() / 1000);
    console.log(JSON.stringify({ second, ...counts, failures, answers }));
    answers = {};
  }, 1000);
  process.on('SIGTERM', () => process.exit(0));
}

function summary(files) {
  const total = { asked: 0, answered: 0, reset: 0, closed: 0, silent: 0, longestMs: 0 };
  const failed = {};
  const seconds = new Map();
  for (const file of files) {
    const text = readFileSync(file, 'utf8').trim();
    const lines = text.split('\n').map((line) => JSON.parse(line));
    const last = lines.at(-1);
    total.asked += last.asked;
    total.answered += last.answered;
    for (const how of ['reset', 'closed', 'silent']) total[how] += last.ended[how];
    total.longestMs = Math.max(total.longestMs, last.longestMs);
    for (const [words, count] of Object.entries(last.failures)) {
      failed[words] = (failed[words] ?? 0) + count;
    }
    for (const { second, answers: some } of lines) {
      const all = seconds.get(second) ?? {};
      for (const [name, count] of Object.entries(some)) all[name] = (all[name] ?? 0) + count;
      seconds.set(second, all);
    }
  }
  console.log(JSON.stringify({ ...total, failures: failed }));
  shares(new Map([...seconds].sort(([a], [b]) => a - b)));
}

/** Prints the share of each server, in its first seconds and later, as parts of an equal share. */
function shares(seconds) {
  const began = seconds.keys().next().value;
  const first = new Map();
  for (const [second, all] of seconds) {
    for (const name of Object.keys(all)) if (!first.has(name)) first.set(name, second);
  }
  for (const [name, since] of first) {
    const parts = [];
    for (let from = since; from < since + 16; from += 2) {
      let own = 0;
      let equal = 0;
      for (const second of [from, from + 1]) {
        const all = seconds.get(second) ?? {};
        const sum = Object.values(all).reduce((a, b) => a + b, 0);
        own += all[name] ?? 0;
        equal += sum / Math.max(1, Object.keys(all).length);
      }
      parts.push(equal === 0 ? '-' : (own / equal).toFixed(2));
    }
    console.log(`${name} from second ${since - began}: ${parts.join(' ')}`);
  }
}

const [mode, ...rest] = process.argv.slice(2);
if (mode === 'serve') serve(Number(rest[0]));
else if (mode === 'ask') ask(rest[0], Number(rest[1]));
else summary(rest);
