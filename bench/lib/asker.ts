/**
 * `node asker.ts COUNT PERIOD_MS PATH ...`: asks the product in the same network namespace COUNT
 * times, one path after the other, with a new connection each time as the commands do. A path is of
 * the metrics server, a URL of any. Prints how long answers took; ms, as JSON.
 */
import { request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

const [count = '', period = '', ...paths] = process.argv.slice(2);

/** Resolves to the length of the answer. */
function ask(path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const url = new URL(path, 'http://127.0.0.1:10249');
    const question = request(url, { agent: false }, (answer) => {
      let bytes = 0;
      answer.on('data', (part: Buffer) => {
        bytes += part.length;
      });
      answer.on('end', () => {
        if (answer.statusCode === 200) resolve(bytes);
        else reject(new Error(`${path}: ${answer.statusCode}`));
      });
    });
    question.once('error', reject).end();
  });
}

const tookMs: number[] = [];
let bytes = 0;
const startedMs = performance.now();
for (let i = 0; i < Number(count); i += 1) {
  const beganMs = performance.now();
  bytes = await ask(paths[i % paths.length]!);
  tookMs.push(performance.now() - beganMs);
  const nextMs = startedMs + (i + 1) * Number(period);
  await sleep(Math.max(0, nextMs - performance.now()));
}
console.log(JSON.stringify({ tookMs, bytes }));
