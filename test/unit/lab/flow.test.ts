import { expect, test } from 'vitest';
import { Mailbox, type Reply } from '../../lab/agent/flow.ts';

const LONG_MS = 60_000;
const closed: Reply = { kind: 'closed' };
const failed: Reply = { kind: 'failed', code: 'ECONNRESET' };
const nothing = (): void => {};

test('the lab passes an event to its waiter', async () => {
  const mailbox = new Mailbox();
  expect(await mailbox.next(LONG_MS, () => mailbox.answer(closed))).toBe(closed);
});

test('the lab drops an answer without a waiter', async () => {
  const mailbox = new Mailbox();
  mailbox.answer(closed);
  expect(await mailbox.next(1, nothing)).toEqual({ kind: 'timeout' });
});

test('the lab reports the end of a connection, with its first reason, to all later waiters', async () => {
  const mailbox = new Mailbox();
  mailbox.end(failed);
  mailbox.end(closed);
  expect(await mailbox.next(LONG_MS, nothing)).toBe(failed);
  expect(await mailbox.next(LONG_MS, nothing)).toBe(failed);
});

test('the lab keeps later questions alive after one was abandoned', async () => {
  const mailbox = new Mailbox();
  const first = mailbox.next(1, nothing);
  const second = mailbox.next(LONG_MS, nothing);
  expect(await first).toEqual({ kind: 'timeout' });
  mailbox.answer(closed);
  expect(await second).toBe(closed);
});
