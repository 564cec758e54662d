/** Endpoints that stop answering in mode ipvs. */
import { afterAll, beforeAll, test } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import {
  halfStays,
  lastStays,
  laterByAnother,
  leavesAndReturns,
  longestMs,
  prepare,
  Watched,
} from './failure-detection.ts';

const eject = { 'fairlead.io/failure-detection': 'eject' };

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

test(
  'an endpoint that answers nothing is left out by its weight, and comes back',
  async () => {
    await leavesAndReturns(await Watched.start(lab, 'ipvs', eject));
  },
  longestMs,
);

test(
  'clients that try an endpoint when it is left out reach another one',
  async () => laterByAnother(lab, 'ipvs', eject),
  longestMs,
);

test(
  'half of the endpoints stay, whatever they do',
  async () => halfStays(await Watched.start(lab, 'ipvs', eject)),
  longestMs,
);

test(
  'one endpoint stays where all others may be left out',
  async () => lastStays(await Watched.start(lab, 'ipvs', eject, { maxEjected: 100 })),
  longestMs,
);
