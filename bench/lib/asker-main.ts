/**
 * `node asker-main.ts`: asks the product in the same network namespace, and as a control a server
 * of its own that says nothing. Prints the URL of that server, then answers each `Asking` with
 * `Answers`; see `answerCommands`.
 */
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { answerCommands } from '../../test/lab/asked-process.ts';
import type { Answers, Asking } from './asker-process.ts';
import { spread } from './spread.ts';

/** Resolves to the length of the answer. A new connection each time, as the commands make. */
function ask(path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const url = new URL(path, 'http://127.0.0.1:10249');
    const question = request(url, { agent: false }, (answer) => {
      let bytes = 0;
      answer.on('data', (part: Buffer) => {
        bytes += part.length;
      });
      answer.on('end', () => {
        // A diff says 503 where changes spoil it: ask again.
        if (answer.statusCode === 200 || answer.statusCode === 503) resolve(bytes);
        else reject(new Error(`${path}: ${answer.statusCode}`));
      });
    });
    question.once('error', reject).end();
  });
}

async function answersTo({ count, paths, perSecond }: Asking): Promise<Answers> {
  const tookMs: number[] = [];
  let bytes = 0;
  await spread(count, count / perSecond, async (i) => {
    const beganMs = performance.now();
    bytes = await ask(paths[i % paths.length]!);
    tookMs.push(performance.now() - beganMs);
  });
  return { tookMs, bytes };
}

const silent = createServer((_question, answer) => answer.end());
await once(silent.listen(0, '127.0.0.1'), 'listening');
console.log(`http://127.0.0.1:${(silent.address() as AddressInfo).port}/`);
await answerCommands(answersTo);
silent.close();
