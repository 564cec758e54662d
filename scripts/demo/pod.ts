/**
 * The process in the demo's namespace of a pod: a server that answers with its name, or a client
 * that counts answers. It receives orders and sends results over the IPC channel of
 * node:child_process.
 */
import { connect, createServer } from 'node:net';

/** An order to a pod. */
export type PodOrder =
  | { readonly kind: 'serve'; readonly name: string; readonly port: number }
  | { readonly kind: 'connect'; readonly load: Load }
  | { readonly kind: 'stop-connecting' };

/** Connections to open: a number of them, or as many as possible until stopped. */
export interface Load {
  readonly address: string;
  readonly port: number;
  readonly connections: number | 'until-stopped';
  readonly concurrency: number;
}

/** The result of an order. */
export interface Outcome {
  /** Answers by name of the server. */
  readonly answers: Readonly<Record<string, number>>;
  /** Error codes of the connections that failed. */
  readonly failures: Readonly<Record<string, number>>;
}

export type PodReport =
  | { readonly kind: 'serving' }
  | { readonly kind: 'outcome'; readonly outcome: Outcome };

const state = { stopped: false };

process.on('message', (order: PodOrder) => {
  switch (order.kind) {
    case 'serve':
      createServer((socket) => {
        socket.on('error', () => socket.destroy());
        socket.end(order.name);
      }).listen(order.port, () => report({ kind: 'serving' }));
      return;
    case 'connect':
      state.stopped = false;
      void run(order.load).then((outcome) => report({ kind: 'outcome', outcome }));
      return;
    case 'stop-connecting':
      state.stopped = true;
      return;
    default:
      throw new Error(`unknown order ${JSON.stringify(order satisfies never)}`);
  }
});
process.on('disconnect', () => process.exit(0));

function report(message: PodReport): void {
  process.send?.(message);
}

async function run(load: Load): Promise<Outcome> {
  const answers: Record<string, number> = {};
  const failures: Record<string, number> = {};
  let left = load.connections === 'until-stopped' ? Number.POSITIVE_INFINITY : load.connections;
  const worker = async (): Promise<void> => {
    while (left > 0 && !state.stopped) {
      left -= 1;
      const { answer, error } = await ask(load.address, load.port);
      const [counts, key] = error === undefined ? [answers, answer] : [failures, error];
      counts[key] = (counts[key] ?? 0) + 1;
    }
  };
  await Promise.all(Array.from({ length: load.concurrency }, worker));
  return { answers, failures };
}

/** One connection: the server's name, or the code of the error that ended it. */
function ask(address: string, port: number): Promise<{ answer: string; error?: string }> {
  return new Promise((resolve) => {
    let answer = '';
    const socket = connect({ host: address, port, timeout: 2000 });
    const fail = (error: string): void => {
      socket.destroy();
      resolve({ answer: '', error });
    };
    socket.setEncoding('utf8');
    socket.on('data', (text: string) => {
      answer += text;
    });
    socket.on('end', () => {
      // Reset instead of FIN: thousands of sockets in TIME_WAIT would use up the client's ports.
      socket.resetAndDestroy();
      resolve({ answer });
    });
    socket.on('timeout', () => fail('timeout'));
    socket.on('error', (error: NodeJS.ErrnoException) => fail(error.code ?? 'error'));
  });
}
