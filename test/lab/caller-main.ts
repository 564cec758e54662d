/**
 * The process of `caller.ts`. Arguments: address, port, calls a second, and after how many
 * milliseconds a call has failed. A line for each call when it is over: when it began, how long it
 * took, and who answered.
 */
import { connect } from 'node:net';

const [, , host = '', port, perSecond, timeout] = process.argv;
const gapMs = 1000 / Number(perSecond);

function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

function call(): void {
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
    process.stdout.write(`${startedMs} ${monotonicMs() - startedMs} ${by}\n`);
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
const beganMs = monotonicMs();
setInterval(() => {
  for (; calls * gapMs <= monotonicMs() - beganMs; calls += 1) call();
}, 5);
process.stdin.resume().once('end', () => process.exit());
