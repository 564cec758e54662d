/**
 * Traffic for scripts/test-endings, in a file of its own that a ConfigMap can hold.
 *
 *     node endings.mjs serve PORT
 *     node endings.mjs ask HOST PORT
 *     node endings.mjs watch
 *     node endings.mjs summary AFTER-MS REMOVALS FILE...
 *
 * A server answers each line with its name. It serves for eight seconds after SIGTERM, and ends.
 * `ask` keeps long connections, on which it asks twice a second, and makes 20 short ones a second.
 * It prints a line of JSON every second, and one for each long connection that ends.
 *
 * `watch` reads what kubectl prints of the EndpointSlices, a line for each change: the slice's name,
 * and the names of its endpoints. It prints when a name was in none of them any more. `summary` adds
 * up what several clients have printed, and compares with that. AFTER-MS is how long after the
 * removal of an endpoint its connections are ended. All clocks must agree.
 */
import { readFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { hostname } from 'node:os';
import { createInterface } from 'node:readline';

const longConnections = 8;
const silentMs = 60_000;
/** Longer than a busy machine may stand still. */
const shortMs = 20_000;
const drainMs = 8000;
/** Who has not heard of an end by then counts as silent. */
const unheardMs = 4000;

function serve(port) {
  const server = createServer((socket) => {
    socket.on('data', () => socket.write(`${hostname()}\n`));
    socket.on('error', () => {});
  });
  server.listen(port);
  process.on('SIGTERM', () => setTimeout(() => process.exit(0), drainMs));
}

/** `slow`: short connections whose answer took more than a second. */
const counts = { asked: 0, answered: 0, slow: 0 };
const failures = {};
let answers = {};
/** Long connections that are open: `server` is known from the first answer on. */
const open = new Set();

function failed(words) {
  failures[words] = (failures[words] ?? 0) + 1;
}

function short(host, port) {
  counts.asked += 1;
  const fromMs = Date.now();
  const socket = connect({ host, port });
  socket.setTimeout(shortMs, () => socket.destroy(new Error('timed out')));
  socket.on('error', ({ message }) => failed(message));
  socket.on('data', (line) => {
    const name = line.toString().trim();
    answers[name] = (answers[name] ?? 0) + 1;
    counts.answered += 1;
    if (Date.now() - fromMs > 1000) counts.slow += 1;
    socket.destroy();
  });
  socket.write('ask\n');
}

function long(host, port) {
  const socket = connect({ host, port });
  const connection = { server: '', fromMs: Date.now(), answeredMs: Date.now() };
  let how = 'closed';
  const timer = setInterval(() => {
    if (Date.now() - connection.answeredMs < silentMs) return void socket.write('ask\n');
    how = 'silent';
    socket.destroy();
  }, 500);
  open.add(connection);
  socket.on('data', (line) => {
    connection.server = line.toString().trim().split('\n').at(-1);
    connection.answeredMs = Date.now();
  });
  socket.on('error', ({ code }) => {
    if (code === 'ECONNRESET') how = 'reset';
    else failed(`long: ${code}`);
  });
  socket.on('close', () => {
    clearInterval(timer);
    open.delete(connection);
    console.log(JSON.stringify({ ended: { ...connection, how, atMs: Date.now() } }));
    setTimeout(() => long(host, port), 100);
  });
}

function ask(host, port) {
  for (let i = 0; i < longConnections; i += 1) long(host, port);
  setInterval(() => short(host, port), 50);
  setInterval(() => {
    const second = Math.floor(Date.now() / 1000);
    console.log(JSON.stringify({ second, ...counts, failures, answers, open: [...open] }));
    answers = {};
  }, 1000);
  process.on('SIGTERM', () => process.exit(0));
}

function watch() {
  const slices = new Map();
  const names = () => new Set([...slices.values()].flat());
  createInterface({ input: process.stdin }).on('line', (line) => {
    const before = names();
    const [slice, ...endpoints] = line.trim().split(/\s+/);
    slices.set(slice, endpoints);
    const after = names();
    for (const server of before) {
      if (!after.has(server)) console.log(JSON.stringify({ server, atMs: Date.now() }));
    }
  });
}

const linesOf = (file) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line) => JSON.parse(line));

/**
 * Prints what became of long connections: how many were `reset` or `silent`, or `closed` by the
 * server, whose endpoint was removed; how many ended although it `stayed`; how many were `kept`, of
 * those that are older than the last removal; and how many were reset too `early`. Too early is only
 * for clients in pods: of masqueraded connections the kernel forgets those whose device has gone
 * (device_cmp in nf_nat_masquerade.c), so clients of the node where the server ran may hear earlier.
 *
 * `lateMs`: how much later than promised resets came. A client sends again what is not acknowledged
 * after pauses that double, so it may hear as late as it has waited for: `overdueMs` is the longest
 * time after that. Then the shares of new endpoints, as parts of an equal share: of all in their
 * first two seconds and from twelve to sixteen, and of each every two seconds.
 */
function summary(afterMs, removals, files) {
  const removed = new Map(linesOf(removals).map(({ server, atMs }) => [server, atMs]));
  const lastMs = Math.max(...removed.values());
  const total = { asked: 0, answered: 0, slow: 0, reset: 0, closed: 0, silent: 0 };
  Object.assign(total, { early: 0, stayed: 0, kept: 0 });
  const failed = {};
  const late = [];
  let overdueMs = 0;
  const seconds = new Map();
  for (const file of files) {
    const lines = linesOf(file);
    const last = lines.findLast(({ second }) => second !== undefined);
    total.asked += last.asked;
    total.answered += last.answered;
    total.slow += last.slow;
    total.kept += last.open.filter(
      ({ fromMs, server }) => fromMs < lastMs && !removed.has(server),
    ).length;
    const heardMs = last.second * 1000 - afterMs - unheardMs;
    total.silent += last.open.filter(({ server }) => removed.get(server) < heardMs).length;
    for (const [words, count] of Object.entries(last.failures)) {
      failed[words] = (failed[words] ?? 0) + count;
    }
    for (const { ended } of lines) {
      if (ended !== undefined) add(ended, !/client-on-node|outside/.test(file));
    }
    for (const { second, answers: some = {} } of lines) {
      if (second === undefined) continue;
      const all = seconds.get(second) ?? {};
      for (const [name, count] of Object.entries(some)) all[name] = (all[name] ?? 0) + count;
      seconds.set(second, all);
    }
  }
  function add({ server, how, atMs, answeredMs }, isPod) {
    const removedMs = removed.get(server);
    if (removedMs === undefined) {
      total.stayed += 1;
      return;
    }
    total[how] += 1;
    if (how !== 'reset') return;
    const promisedMs = removedMs + afterMs;
    late.push(atMs - promisedMs);
    overdueMs = Math.max(overdueMs, atMs - promisedMs - Math.max(0, promisedMs - answeredMs));
    // The watch may hear of the removal later than Fairlead does.
    if (isPod && atMs < promisedMs - 500) total.early += 1;
  }
  late.sort((a, b) => a - b);
  const at = (part) => late[Math.min(late.length - 1, Math.floor(late.length * part))] ?? null;
  const lateMs = { p50: at(0.5), p99: at(0.99), max: at(1) };
  const growth = shares(new Map([...seconds].sort(([a], [b]) => a - b)));
  console.log(
    JSON.stringify({ ...total, removed: removed.size, failures: failed, lateMs, overdueMs }),
  );
  const firstShare = mean(growth, 0, 1);
  const laterShare = mean(growth, 6, 8);
  console.log(JSON.stringify({ newEndpoints: growth.length, firstShare, laterShare }));
  for (const { name, parts } of growth) console.log(`${name}: ${parts.map(written).join(' ')}`);
}

const written = (part) => (part === undefined ? '-' : part.toFixed(2));

/** The mean of shares in the windows of two seconds from `begin` to before `end`, of all endpoints. */
function mean(growth, begin, end) {
  const parts = growth.flatMap(({ parts }) => parts.slice(begin, end)).filter((part) => part >= 0);
  return Number((parts.reduce((a, b) => a + b, 0) / parts.length).toFixed(2));
}

/** The shares of each server that came later than the others, in its first 16 seconds. */
function shares(seconds) {
  const [began] = seconds.keys();
  const first = new Map();
  for (const [second, all] of seconds) {
    for (const name of Object.keys(all)) if (!first.has(name)) first.set(name, second);
  }
  const growth = [];
  for (const [name, since] of first) {
    if (since < began + 4) continue;
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
      parts.push(equal === 0 ? undefined : own / equal);
    }
    growth.push({ name, parts });
  }
  return growth;
}

const [mode, ...rest] = process.argv.slice(2);
if (mode === 'serve') serve(Number(rest[0]));
else if (mode === 'ask') ask(rest[0], Number(rest[1]));
else if (mode === 'watch') watch();
else summary(Number(rest[0]), rest[1], rest.slice(2));
