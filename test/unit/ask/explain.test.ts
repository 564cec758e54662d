import { afterEach, describe, expect, it } from 'vitest';
import type { Explanation } from '../../../src/ask/explanation.ts';
import type { Running } from '../app/running.ts';
import { asked, said } from './asking.ts';
import { riddles } from './quiz.ts';
import { startedWith } from './riddle-app.ts';

let app: Running;

afterEach(() => app.stop());

/** What becomes of a packet, as the answer has it. */
function promised({ endpoints, outcome, steps }: Explanation) {
  const fate = steps.map(({ text }) => /^The packet is (rejected|dropped)/.exec(text)?.[1]);
  const end = outcome === 'nobody' ? fate.find((one) => one !== undefined) : outcome;
  const isMasqueraded = steps.some(({ text }) => text.startsWith('It is masqueraded'));
  return { end: end ?? 'as it is', isMasqueraded, isExpected: endpoints.length > 0 };
}

const clients = { pod: '10.244.0.9', node: '192.168.7.7', outside: '198.18.0.1' } as const;

/** And as the rules in the kernel have it. */
function met({ endpoints, from, to }: Explanation) {
  const { masqueraded, translated, ...end } = app.kernel.evaluate({
    saddr: from.address ?? clients[from.kind],
    daddr: to.address,
    protocol: to.protocol,
    dport: to.port,
    iif: from.kind === 'node' ? undefined : 'cni0',
    nodeAddresses: ['192.168.7.7'],
    random: 0,
  });
  const untranslated = { accept: 'as it is', reject: 'rejected', drop: 'dropped' }[end.verdict];
  return {
    end: translated ? 'endpoint' : untranslated,
    isMasqueraded: masqueraded && end.to !== `${from.address}:8080`,
    isExpected: endpoints.includes(end.to),
  };
}

describe('a broken cluster', () => {
  it.each(riddles)('where $name', async (riddle) => {
    const { cause, from, object, outcome, to } = riddle;
    app = await startedWith(riddle);
    const query = new URLSearchParams({ to, ...(from && { from }) });
    const { body, status } = await asked(app, 'explain', `?${query}`);
    const options = from === undefined ? [] : [`--from=${from}`];
    const { code, stderr, stdout } = await said(app, 'explain', to, ...options);
    expect(stdout + stderr).toContain(cause);
    expect(code).toBe(outcome === 'endpoint' ? 0 : 1);
    if (outcome === 'refused') expect([status, body.error]).toEqual([404, expect.any(String)]);
    else expect(body.outcome).toBe(outcome);
    if (object !== undefined) expect(stdout).toContain(object);
    if (status === 200) expect(promised(body)).toEqual(met(body));
  });
});
