import { afterEach, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import type { Explanation } from '../../../src/ask/explanation.ts';
import { decodeChange, decodeContext } from '../../../src/source/decode.ts';
import { type Change, resources } from '../../../src/state/change.ts';
import { configOf, Running } from '../app/running.ts';
import { quiet } from '../sync/double.ts';
import { asked, said } from './asking.ts';
import { type Riddle, riddles } from './quiz.ts';

let app: Running;

afterEach(() => app.stop());

const resourceOf: Readonly<Record<string, (typeof resources)[number]>> = {
  Service: 'services',
  EndpointSlice: 'endpointslices',
  Node: 'nodes',
  ServiceCIDR: 'servicecidrs',
};

function changesOf(manifests: string): Change[] {
  const context = decodeContext('node-a');
  return parseAllDocuments(manifests).flatMap((document) => {
    const raw = document.toJS();
    if (raw === null) return [];
    const { change, problems } = decodeChange(resourceOf[raw.kind]!, raw, context);
    if (change === undefined) throw new Error(JSON.stringify(problems));
    return [change];
  });
}

async function running({
  conntrack,
  flags = [],
  host = {},
  kernel,
  later,
  manifests,
}: Riddle): Promise<void> {
  const config = await configOf('--manifests=/anywhere', '--proxy-mode=nftables', ...flags);
  const read = (path: string): string | undefined => host[path];
  app = await new Running(config).start({ host: { read, write: () => {} } });
  await kernel?.(app.kernel);
  app.source.say(...changesOf(manifests));
  app.source.listed(...resources);
  await quiet();
  later?.(app.kernel);
  if (conntrack !== undefined) app.conntrack.add(conntrack);
}

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
    await running(riddle);
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
