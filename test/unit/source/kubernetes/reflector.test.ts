import { expect, it } from 'vitest';
import { decodeContext } from '../../../../src/source/decode.ts';
import type { ApiClient } from '../../../../src/source/kubernetes/client.ts';
import { Delivery } from '../../../../src/source/kubernetes/delivery.ts';
import { json } from '../../../../src/source/kubernetes/encoding.ts';
import { protobuf } from '../../../../src/source/kubernetes/protobuf/encoding.ts';
import { StringCache } from '../../../../src/source/kubernetes/protobuf/string-cache.ts';
import { Reflector } from '../../../../src/source/kubernetes/reflector.ts';
import { defaultTiming } from '../../../../src/source/kubernetes/timing.ts';
import { finish } from '../../../../src/state/steps.ts';
import { Pacer } from '../../../../src/time/pacer.ts';
import { turnsUntil } from '../../turns.ts';
import { Recorder } from '../recorder.ts';

function service(name: string, version: number) {
  return {
    metadata: { namespace: 'ns', name, resourceVersion: String(version) },
    spec: { clusterIP: '10.96.0.1' },
  };
}

const end = {
  metadata: { resourceVersion: '9', annotations: { 'k8s.io/initial-events-end': 'true' } },
};

/** Names of the Services that are there after a streaming list with these events. */
async function listed(known: readonly string[], events: [string, object][]): Promise<string[]> {
  const lines = [...events, ['BOOKMARK', end]].map(([type, object]) => ({ type, object }));
  const text = lines.map((line) => `${JSON.stringify(line)}\n`).join('');
  const stopped = new AbortController();
  const client = {
    async get() {
      const body = (async function* () {
        yield Buffer.from(text);
        if (stopped.signal.aborted) return;
        await new Promise((resolve) => stopped.signal.addEventListener('abort', resolve));
      })();
      return { form: 'json', body };
    },
  } as unknown as ApiClient;
  const sink = new Recorder();
  const context = decodeContext('here');
  const delivery = new Delivery('services', context, sink);
  const encodings = { json, protobuf: protobuf('services', context, new StringCache()) };
  for (const name of known) finish(delivery.decode(service(name, 1)))();
  const target = { resource: 'services', path: '/', query: {}, presence: 'required' } as const;
  const parts = { client, delivery, encodings, sink, pacer: new Pacer(), timing: defaultTiming };
  const running = new Reflector(target, parts).run(stopped.signal);
  await turnsUntil(() => sink.syncedResources.length > 0);
  stopped.abort();
  await running;
  return sink.names();
}

it.each([
  ['the first list', []],
  ['a later list', ['a', 'gone']],
])(
  'the reflector has after %s the objects of the list, without the deleted ones',
  async (_which, known) => {
    const names = await listed(known, [
      ['ADDED', service('a', 2)],
      ['ADDED', service('b', 3)],
      ['ADDED', service('c', 4)],
      ['DELETED', service('b', 5)],
      ['DELETED', service('c', 6)],
      ['ADDED', service('c', 7)],
    ]);
    expect(names).toEqual(['service ns/a', 'service ns/c']);
  },
);
