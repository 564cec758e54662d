import { expect, it } from 'vitest';
import { Requests } from '../../../src/sync/requests.ts';
import { ToyClock } from './double.ts';

it.each([
  ['once for all requests before a sync', 'request request begin end', 1],
  ['again after a sync that has answered them', 'request begin end request', 2],
  ['again for a request during a sync', 'request begin request', 2],
  ['not again if that sync has done what was asked for during it', 'request begin request end', 2],
  ['for the next sync if it has not', 'request begin request more', 3],
  ['once for that one, too', 'request begin request more request', 3],
  ['not for the next sync if nothing was asked for', 'request begin more', 1],
  ['after a report not again', 'report request', 1],
])('a sync is asked for %s', (_, steps, expected) => {
  let asked = 0;
  const requests = new Requests(new ToyClock(), () => {
    asked += 1;
  });
  for (const step of steps.split(' ')) {
    if (step === 'end' || step === 'more') requests.end(step === 'more');
    else requests[step as 'request' | 'report' | 'begin']();
  }
  expect(asked).toBe(expected);
});

it('a wait is over at its time, or at that of an earlier one which was over before it', async () => {
  const clock = new ToyClock();
  const requests = new Requests(clock, () => {});
  const over: number[] = [];
  const wait = async (atMs?: number): Promise<void> => {
    await requests.wait(atMs);
    over.push(clock.now());
  };
  void wait(100);
  requests.wake();
  await clock.pass(10);
  void wait(300);
  await clock.pass(140);
  void wait(300);
  await clock.pass(200);
  void wait(500);
  await clock.pass(10);
  requests.wake();
  await clock.pass(0);
  void wait(400);
  await clock.pass(90);
  expect(over).toEqual([0, 100, 300, 360, 400]);
  requests.stop();
  void wait();
  await clock.pass(1000);
  expect(over).toHaveLength(5);
});
