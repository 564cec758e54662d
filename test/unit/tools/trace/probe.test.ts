import { describe, expect, it } from 'vitest';
import { probesText } from '../../../../src/cli/ask/trace.ts';
import type { Reached } from '../../../../src/host/reach.ts';
import { parseAddress } from '../../../../src/net/address.ts';

const to = { address: parseAddress('10.96.0.1')!, port: 80 };

function texts(protocol: 'TCP' | 'UDP', ...answers: Reached['answer'][]): string {
  const all = answers.map(
    (answer): Reached => ({
      ...{ answer, tookMs: 1, error: 'connect E', sourcePort: 4711 },
    }),
  );
  return probesText({ ...to, protocol }, all);
}

describe('what became of the packets that a trace has sent', () => {
  it.each([
    [texts('TCP', 'connected'), 'The connection of this node to 10.96.0.1:80/TCP was accepted.'],
    [
      texts('TCP', 'connected', 'connected', 'connected'),
      'Of 3 connections of this node to 10.96.0.1:80/TCP, 3 were accepted.',
    ],
    [
      texts('TCP', 'connected', 'refused', 'refused', 'timeout'),
      'Of 4 connections of this node to 10.96.0.1:80/TCP, 1 was accepted; 2 failed: connect E; ' +
        '1 was not answered within 1 s.',
    ],
    // An answer is not hidden by the silence before it.
    [
      texts('UDP', 'silent', 'answered'),
      'Of 2 datagrams of this node to 10.96.0.1:80/UDP, 1 was sent, and nothing came back; ' +
        '1 was answered.',
    ],
  ])('is %s', (text, expected) => expect(text).toBe(expected));
});
