/** Endpoints that stop answering: who notices, who is left out, and who comes back. */
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { ModeName } from '../../src/config/config.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import {
  halfStays,
  isLeftOutByAnother,
  isObserved,
  lastStays,
  laterByAnother,
  leavesAndReturns,
  longestMs,
  prepare,
  Watched,
} from './failure-detection.ts';

const detection = 'fairlead.io/failure-detection';

let lab: Lab;
let end: () => void;
beforeAll(async () => {
  lab = await createLab();
  end = await prepare(lab);
});
afterAll(async () => {
  end?.();
  await lab?.close();
});

describe.each<ModeName>(['nftables', 'iptables', 'userspace'])('in mode %s', (mode) => {
  test(
    'an endpoint that answers nothing is left out, and comes back when it answers',
    async () => {
      await leavesAndReturns(await Watched.start(lab, mode, { [detection]: 'eject' }));
    },
    longestMs,
  );
});

describe.each<ModeName>(['nftables', 'iptables'])('in mode %s', (mode) => {
  test(
    'clients that try an endpoint when it is left out reach another one',
    async () => laterByAnother(lab, mode, { [detection]: 'eject' }),
    longestMs,
  );
});

describe('in mode nftables', () => {
  test(
    'half of the endpoints stay, whatever they do',
    async () => halfStays(await Watched.start(lab, 'nftables', { [detection]: 'eject' })),
    longestMs,
  );

  test(
    'one endpoint stays where all others may be left out',
    async () =>
      lastStays(
        await Watched.start(lab, 'nftables', { [detection]: 'eject' }, { maxEjected: 100 }),
      ),
    longestMs,
  );

  test(
    'an endpoint that another Service leaves out by its own probes stays',
    async () => isLeftOutByAnother(lab, 'nftables'),
    longestMs,
  );

  test(
    'endpoints of a Service that only observes stay, and the metric counts what is silent',
    async () => isObserved(await Watched.start(lab, 'nftables', { [detection]: 'observe' })),
    longestMs,
  );
});
