/** Sockets of mode userspace that are only recorded and not opened. They can be of SCTP, too. */
import type { ServedFrontend } from '../../src/modes/sockets/frontends.ts';
import type { Refusal, Sockets } from '../../src/modes/sockets/switchboard.ts';
import type { Family } from '../../src/net/address.ts';

export class WrittenSockets implements Sockets {
  readonly #open = new Map<string, ServedFrontend>();
  /** How many of the next sockets are refused. */
  refusals = 0;

  get(id: string): ServedFrontend | undefined {
    return this.#open.get(id);
  }

  *frontends(family: Family): Generator<ServedFrontend> {
    for (const one of this.#open.values()) if (one.address.family === family) yield one;
  }

  async untilLocal(): Promise<void> {}

  async open(frontend: ServedFrontend): Promise<Refusal | undefined> {
    this.refusals -= 1;
    if (this.refusals >= 0) return { code: 'EADDRINUSE', message: 'taken', isLasting: false };
    this.#open.set(frontend.id, frontend);
    return undefined;
  }

  update(frontend: ServedFrontend): void {
    this.#open.set(frontend.id, frontend);
  }

  close(id: string): void {
    this.#open.delete(id);
  }

  isBusy(): boolean {
    return false;
  }

  texts(): string[] {
    return [...this.#open.values()].map(({ contender: _, ...one }) => JSON.stringify(one)).sort();
  }
}
