/** The process of `fairlead-inside.ts`: requests by line on standard input, replies likewise. */
import { execFile } from 'node:child_process';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { withoutNetfilter } from '../fake/without-netfilter.ts';
import type { NodeUnderTest } from '../lab/proxy.ts';
import type { InsideReply, InsideRequest } from './fairlead-inside.ts';
import { fairlead, type MeasuredProxy } from './fairlead-proxy.ts';

function tell(reply: InsideReply): void {
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}

function nodeHere(nodeName: string): NodeUnderTest {
  return {
    nodeName,
    namespace: '',
    // That of the process, which may not be allowed to enter any.
    namespacePath: '',
    run: async ([program, ...args]) => (await promisify(execFile)(program!, args)).stdout,
  };
}

class Inside {
  #proxy: MeasuredProxy | undefined;

  /** Resolves to the text of the reply, if it has one. */
  async handle(request: InsideRequest): Promise<string | undefined> {
    switch (request.op) {
      case 'start': {
        const { mode, nodeName, settings, objects, netfilter, errors, connectTime } = request;
        const proxy = fairlead(mode, {
          errors,
          ownsLoopback: true,
          ...(connectTime === undefined ? {} : { connectTime }),
          log: (line) => tell({ kind: 'log', line }),
          ...(netfilter === 'absent' ? { kernel: withoutNetfilter } : {}),
        });
        this.#proxy = await proxy.start(nodeHere(nodeName), settings, objects);
        return;
      }
      case 'apply':
        await this.#proxy?.apply(request.objects);
        return;
      case 'switch':
        await this.#proxy?.switchTo(request.mode);
        return;
      case 'skip':
        await this.#proxy?.skip(request.timeMs);
        return;
      case 'metrics':
        return this.#proxy?.metrics();
      case 'stop':
        await this.#proxy?.stop();
        return;
    }
  }
}

const inside = new Inside();
for await (const line of createInterface({ input: process.stdin })) {
  const reply = await inside.handle(JSON.parse(line) as InsideRequest).then(
    (text) => ({ text }),
    ({ message }: Error) => ({ error: message }),
  );
  tell({ kind: 'done', ...reply });
}
