import { afterEach, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { decodeChange, decodeContext } from '../../../src/source/decode.ts';
import { type Change, resources } from '../../../src/state/change.ts';
import { type Running, started } from '../app/running.ts';
import { quiet } from '../sync/double.ts';
import { asked, said } from './asking.ts';
import { riddles } from './quiz.ts';

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

async function running(manifests: string, ...flags: readonly string[]): Promise<void> {
  app = await started('--manifests=/anywhere', '--proxy-mode=nftables', ...flags);
  app.source.say(...changesOf(manifests));
  app.source.listed(...resources);
  await quiet();
}

describe('a broken cluster', () => {
  it.each(riddles)(
    'where $name',
    async ({ cause, flags, from, manifests, object, outcome, to }) => {
      await running(manifests, ...(flags ?? []));
      const query = new URLSearchParams({ to, ...(from && { from }) });
      const { body, status } = await asked(app, 'explain', `?${query}`);

      if (outcome === 'refused') {
        expect([status, body.error]).toEqual([expect.any(Number), expect.stringContaining(cause)]);
        return;
      }
      expect(body.outcome).toBe(outcome);
      const text = (await said(app, 'explain', to, ...(from ? [`--from=${from}`] : []))).stdout;

      expect(text).toContain(cause);
      if (object !== undefined) expect(text).toContain(object);
    },
  );
});
