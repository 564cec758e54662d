/** The process of `fairlead-inside.ts`: requests by line on standard input, replies likewise. */
import { execFile } from 'node:child_process';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { withoutNetfilter } from '../fake/without-netfilter.ts';
import type { NodeUnderTest } from '../lab/proxy.ts';
import type { InsideReply, InsideRequest } from './fairlead-inside.ts';
import { fairlead, type SwitchableProxy } from './fairlead-proxy.ts';

function tell(reply: InsideReply): void {
  process.stdout.write(`${JSON.stringify(reply)}\n`);
}

function nodeHere(nodeName: string): NodeUnderTest {
  return {
    nodeName,
    namespace: '',
    namespacePath: '/proc/self/ns/net',
    run: async ([program, ...args]) => (await promisify(execFile)(program!, args)).stdout,
  };
}

class Inside {
  #proxy: SwitchableProxy | undefined;

  async handle(request: InsideRequest): Promise<void> {
    switch (request.op) {
      case 'start': {
        const { mode, nodeName, settings, objects, netfilter, errors } = request;
        const proxy = fairlead(mode, {
          errors,
          log: (line) => tell({ kind: 'log', line }),
          ...(netfilter === 'absent' ? { kernel: withoutNetfilter } : {}),
        });
        this.#proxy = await proxy.start(nodeHere(nodeName), settings, objects);
        return;
      }
      case 'apply':
        return this.#proxy?.apply(request.objects);
      case 'switch':
        return this.#proxy?.switchTo(request.mode);
      case 'stop':
        return this.#proxy?.stop();
    }
  }
}

const inside = new Inside();
for await (const line of createInterface({ input: process.stdin })) {
  const error = await inside.handle(JSON.parse(line) as InsideRequest).then(
    () => undefined,
    (failure: Error) => failure.message,
  );
  tell(error === undefined ? { kind: 'done' } : { kind: 'done', error });
}
