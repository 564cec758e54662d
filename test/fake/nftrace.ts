/** Events of traced packets as the kernel sends them (test/process compares with a real one). */
import type { ReplyOf } from '../../src/kernel/kernel.ts';
import { NFT_TRACETYPE } from '../../src/kernel/nft/constants.ts';
import { evaluate, type Outcome, type Packet, type TracedEvent } from './nft-packet.ts';
import type { Tables } from './nft-state.ts';

type Event = ReplyOf<'nftraceEvent'>;

const none = new Uint8Array(0);

export class FakeNftrace {
  #events: Event[] = [];
  #id = 0;
  #hasListener = false;

  /** Evaluates the next packet, and records its events. */
  send(tables: Tables, packet: Packet): Outcome {
    this.#id += 1;
    let isInside = false;
    return evaluate(tables, packet, (event) => {
      // The headers come with the first event of each base chain.
      const isFirst = !isInside;
      isInside = !isEnd(event);
      if (this.#hasListener) this.#events.push(this.#made(event, isFirst));
    });
  }

  /** Waits for a turn of the event loop only. */
  async wait(): Promise<void> {
    if (this.#events.length === 0) await new Promise((resolve) => setImmediate(resolve));
  }

  /** The events since the last call. The first call begins to listen, and gets none. */
  answer(): Event[] {
    this.#hasListener = true;
    const events = this.#events;
    this.#events = [];
    return events;
  }

  #made(event: TracedEvent, isFirst: boolean): Event {
    const without = { inputInterface: 0, outputInterface: 0, networkHeader: none };
    const seen = isFirst ? event : { ...event, ...without, transportHeader: none };
    return { kind: 'nftraceEvent', id: this.#id, ...seen };
  }
}

/** A policy, or a verdict that ends the base chain. */
function isEnd({ type, verdict }: TracedEvent): boolean {
  return type === NFT_TRACETYPE.POLICY || (type === NFT_TRACETYPE.RULE && verdict >= 0);
}
