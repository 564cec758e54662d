/**
 * The process of `caller.ts`. Arguments: address, port, calls a second, after how many milliseconds
 * a call has failed, and whether calls that it could not begin in time are made later. A line for
 * each call when it is over: its number, when it began, how long it took, and who answered.
 */
import { connect } from 'node:net';

const [, , host = '', port, perSecond, timeout, makesUp] = process.argv;
const gapMs = 1000 / Number(perSecond);

function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

function call(number: number): void {
  const startedMs = monotonicMs();
  const socket = connect({ host, port: Number(port) });
  let isOver = false;
  const end = (by = ''): void => {
    if (isOver) return;
    isOver = true;
    clearTimeout(timer);
    // A connection that is still being made would keep the process.
    if (socket.connecting) socket.destroy();
    else socket.resetAndDestroy();
    process.stdout.write(`${number} ${startedMs} ${monotonicMs() - startedMs} ${by}\n`);
  };
  const timer = setTimeout(end, Number(timeout));
  let bytes = Buffer.alloc(0);
  socket.on('data', (part) => {
    bytes = Buffer.concat([bytes, part]);
    if (bytes.length === 4) end(bytes.join('.'));
  });
  socket.on('error', () => end());
  socket.on('close', () => end());
}

let calls = 0;
let dueMs = monotonicMs();
setInterval(() => {
  for (; dueMs <= monotonicMs(); dueMs += gapMs) {
    if (makesUp !== 'true') dueMs = Math.max(dueMs, monotonicMs() - gapMs);
    call(calls);
    calls += 1;
  }
}, 5);
process.stdin.resume().once('end', () => process.exit());
