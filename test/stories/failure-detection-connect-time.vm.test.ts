/**
 * Endpoints that stop answering, where connections are translated at connect time in mode ipvs.
 * `FAIRLEAD_STORIES=first`: the first story, with which connect time and IPVS leave one out.
 */
import { afterAll, beforeAll } from 'vitest';
import { type ConnectTimePlace, makeConnectTimePlace } from '../lab/connect-time.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import {
  decisionStories,
  failureStories,
  firstFailureStory,
  prepare,
} from './failure-detection.ts';

let lab: Lab;
let place: ConnectTimePlace;
let end: () => void;
beforeAll(async () => {
  lab = await createLab();
  place = makeConnectTimePlace();
  end = await prepare(lab);
});
afterAll(async () => {
  end?.();
  await lab?.close();
  place?.close();
});

const how = () => ({ place });

if (process.env.FAIRLEAD_STORIES === 'first') firstFailureStory(() => lab, 'ipvs', { how });
else {
  failureStories(() => lab, 'ipvs', how);
  decisionStories(() => lab, 'ipvs', how);
}
