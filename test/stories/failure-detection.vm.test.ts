/**
 * Endpoints that stop answering in mode ipvs. `FAIRLEAD_STORIES=first`: one does in mode nftables,
 * and the mode is changed to iptables and ipvs, in which it is to stay out. So the program starts
 * once, which is slow where the processor is emulated.
 */
import { afterAll, beforeAll } from 'vitest';
import { createLab, type Lab } from '../lab/lab.ts';
import {
  decisionStories,
  failureStories,
  firstFailureStory,
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

if (process.env.FAIRLEAD_STORIES === 'first') {
  firstFailureStory(() => lab, 'nftables', { later: ['iptables', 'ipvs'] });
} else {
  failureStories(() => lab, 'ipvs');
  packetFailureStories(() => lab, 'ipvs');
  decisionStories(() => lab, 'ipvs');
}
