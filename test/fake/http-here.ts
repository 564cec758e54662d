/** The HTTP server on the thread of the test, which sees changes of the test immediately. */
import type { HttpOpener } from '../../src/agent/observers.ts';
import type { ProbePath } from '../../src/serve/health-answer.ts';
import { HttpServer } from '../../src/serve/http/http-server.ts';
import { HttpThread } from '../../src/serve/http/http-thread.ts';
import type { Probes } from '../../src/serve/http/probes.ts';
import type { SharedMemory } from '../../src/serve/http/shared-memory.ts';
import type { Wire, WireEvents } from '../../src/serve/http/wire.ts';
import type { TextReply } from '../../src/serve/reply.ts';

interface Told {
  readonly answer?: (path: ProbePath) => TextReply;
  readonly healthy?: () => boolean;
  readonly nodeListed?: () => boolean;
}

export const openHere: HttpOpener = (memory, events, health) =>
  served(memory, events, {
    answer: (path) => health.answer(path),
    healthy: () => health.healthy,
    nodeListed: () => health.facts().nodeListed,
  });

/** Without a proxy: the test sets the facts for probes. */
export function httpHere(told: Told = {}): HttpThread {
  return new HttpThread({
    open: (memory, events) => served(memory, events, told),
    health: { facts: () => noFacts },
    ended: (error) => {
      throw error;
    },
  });
}

export const noFacts = {
  monotonicMs: 0,
  timeoutMs: 60_000,
  families: [],
  nodeEligible: true,
  nodeListed: true,
  lists: [],
  overLimit: 0,
  behindMs: 0,
} as const;

function served(memory: SharedMemory, { received }: WireEvents, told: Told): Wire {
  const { answer, healthy = () => true, nodeListed = () => true } = told;
  const probes: Omit<Probes, 'turned'> = {
    answer: answer ?? (() => ({ status: 200, headers: {}, body: '' })),
    get healthy() {
      return healthy();
    },
    get nodeListed() {
      return nodeListed();
    },
    refresh: (call) => call(),
    isWaiting: false,
    tick: () => {},
  };
  const now = () => performance.now();
  const server = new HttpServer({ send: received, probes, memory, now });
  return {
    send: (message) => {
      if (message.kind !== 'refreshed') server.receive(message);
    },
    close: () => server.close(),
  };
}
