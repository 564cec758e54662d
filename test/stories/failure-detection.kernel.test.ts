/** Endpoints that stop answering: who notices, who is left out, and who comes back. */

import { afterAll, beforeAll, describe } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import { MODES_WITHOUT_IPVS } from '../lab/proxy.ts';
import {
  areAllAsked,
  decisionStories,
  failureStories,
  packetFailureStories,
  prepare,
} from './failure-detection.ts';

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

describe.each(MODES_WITHOUT_IPVS)('in mode %s', (mode) => {
  failureStories(() => lab, mode);
  packetFailureStories(() => lab, mode);
  if (mode === 'nftables' || areAllAsked) decisionStories(() => lab, mode);
});
