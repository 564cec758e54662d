/** Endpoints that stop answering in mode ipvs. */
import { afterAll, beforeAll } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import {
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

failureStories(() => lab, 'ipvs');
packetFailureStories(() => lab, 'ipvs');
decisionStories(() => lab, 'ipvs');
