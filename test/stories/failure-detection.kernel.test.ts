/** Endpoints that stop answering: who notices, who is left out, and who comes back. */

import { afterAll, beforeAll, describe } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import { MODES_WITHOUT_IPVS } from '../lab/proxy.ts';
import {
  decisionStories,
  failureStories,
  packetFailureStories,
  prepare,
} from './failure-detection.ts';
import { areAllAsked } from './index.ts';

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
