/**
 * Endpoints that stop answering, where connections are translated at connect time. Packets to
 * frontends are dropped, so that no client reaches an endpoint by the rules of a mode.
 */

import { afterAll, beforeAll, describe } from 'vitest';
import { type ConnectTimePlace, canTranslate, makeConnectTimePlace } from '../lab/connect-time.ts';
import { createLab, type Lab } from '../lab/lab.ts';
import { MODES_WITHOUT_IPVS } from '../lab/proxy.ts';
import { decisionStories, failureStories, prepare } from './failure-detection.ts';
import { areAllAsked } from './index.ts';

let lab: Lab;
let place: ConnectTimePlace;
let end: () => void;
beforeAll(async () => {
  if (!canTranslate()) return;
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
const modes = areAllAsked ? MODES_WITHOUT_IPVS : (['nftables'] as const);

describe.skipIf(!canTranslate()).each(modes)('with mode %s', (mode) => {
  failureStories(() => lab, mode, how);
  if (areAllAsked) decisionStories(() => lab, mode, how);
});
