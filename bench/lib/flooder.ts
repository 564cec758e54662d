/** Floods ports of the product, from a process in its network namespace (`flooder-main.ts`). */
import { join } from 'node:path';
import { AskedProcess } from '../../test/lab/asked-process.ts';
import type { Namespace } from './namespace.ts';

const main = join(import.meta.dirname, 'flooder-main.ts');

/** A server of the flooder's own, which answers nothing. */
export const controlPort = 10_250;

export const floodKinds = [
  'pipelined',
  'not read',
  'half a request',
  'headers of 64 KiB',
  'a body without end',
] as const;

export interface Flood {
  readonly kind: (typeof floodKinds)[number];
  readonly connections: number;
  /** The number of source addresses. */
  readonly sources: number;
  readonly port: number;
  readonly path: string;
  readonly seconds: number;
}

export interface Flooded {
  /** Also those that were closed and opened again. */
  readonly connections: number;
  readonly bytesRead: number;
}

export class Flooder {
  readonly #process: AskedProcess;

  constructor(namespace: Namespace) {
    this.#process = new AskedProcess(main, [], namespace);
  }

  async flood(flood: Flood): Promise<Flooded> {
    return (await this.#process.ask(flood)) as Flooded;
  }

  close(): Promise<void> {
    return this.#process.close();
  }
}
