/**
 * What a kube-apiserver 1.36 has sent (recorded.json, taken down with curl), and what the fake
 * server makes of the same objects.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { decodeChange, decodeContext } from '../../../../../src/source/decode.ts';
import { type Encoding, json } from '../../../../../src/source/kubernetes/encoding.ts';
import { protobuf, readStatus } from '../../../../../src/source/kubernetes/protobuf/encoding.ts';
import { StringCache } from '../../../../../src/source/kubernetes/protobuf/string-cache.ts';
import { endsInitialEvents } from '../../../../../src/source/kubernetes/watch-event.ts';
import type { Resource } from '../../../../../src/state/change.ts';
import { finish } from '../../../../../src/state/steps.ts';
import { jsonForm, protobufForm } from '../../../../fake/api-server-form.ts';
import { FakeStore, kinds } from '../../../../fake/api-server-store.ts';

interface Recorded {
  readonly contentType: string;
  /** In base64. */
  readonly protobuf: string;
  readonly json: string;
}

const recorded = JSON.parse(
  readFileSync(join(import.meta.dirname, 'recorded.json'), 'utf8'),
) as Readonly<Record<'lists' | 'watches' | 'statuses', Readonly<Record<string, Recorded>>>>;

const bytesOf = (text: string): Buffer => Buffer.from(text, 'base64');
const context = decodeContext('node-1');
const protobufOf = (resource: Resource): Encoding => protobuf(resource, context, new StringCache());

function readList(encoding: Encoding, resource: Resource, body: Buffer) {
  const list = encoding.list(1_000_000);
  const changes: unknown[] = [];
  for (const byte of body) {
    for (const item of list.push(Buffer.of(byte))) {
      changes.push(decodeChange(resource, finish(encoding.item(item as Buffer)), context));
    }
  }
  const { metadata } = list.envelope() as { metadata: { resourceVersion: string } };
  return { changes, resourceVersion: metadata.resourceVersion };
}

function readWatch(encoding: Encoding, resource: Resource, body: Buffer) {
  const events = [...encoding.events(1_000_000).push(body)].map((event) =>
    finish(encoding.event(event as Buffer)),
  );
  return events.map((event) => ({
    type: event.type,
    ends: endsInitialEvents(event),
    change: event.type === 'BOOKMARK' ? undefined : decodeChange(resource, event.object, context),
  }));
}

describe('an API server', () => {
  it.each(Object.entries(recorded.lists))('lists %s alike in both forms', (name, list) => {
    const resource = name as Resource;
    expect(list.contentType).toBe(protobufForm.type);
    const ours = readList(protobufOf(resource), resource, bytesOf(list.protobuf));
    expect(ours.changes).toEqual(readList(json, resource, Buffer.from(list.json)).changes);
    expect(ours.changes.length).toBeGreaterThan(0);
    expect(ours.resourceVersion).toMatch(/^\d+$/);
  });

  it.each(Object.entries(recorded.watches))(
    'streams %s equally in both encodings',
    (name, watch) => {
      const resource = name as Resource;
      expect(watch.contentType).toBe(protobufForm.watchType);
      const ours = readWatch(protobufOf(resource), resource, bytesOf(watch.protobuf));
      expect(ours).toEqual(readWatch(json, resource, Buffer.from(watch.json)));
      expect(ours.at(-1)).toMatchObject({ type: 'BOOKMARK', ends: true });
    },
  );

  it.each(Object.entries(recorded.statuses))(
    'answers %s equally in both encodings',
    (code, status) => {
      expect(status.contentType).toBe(protobufForm.type);
      const { reason } = JSON.parse(status.json);
      expect(readStatus(bytesOf(status.protobuf))).toMatchObject({ code: Number(code), reason });
    },
  );
});

/** What is written with every object, empty or not, by the code that Kubernetes generates. */
describe('the fake API server', () => {
  it.each(Object.entries(recorded.lists))('sends %s as a real one does', (name, list) => {
    const resource = name as Resource;
    const store = new FakeStore();
    const { items } = JSON.parse(list.json) as { items: Record<string, unknown>[] };
    for (const item of items) store.apply({ kind: kinds[resource].kind, ...item });
    const objects = [...store.objects(resource).values()];
    const metadata = { resourceVersion: '7' };
    const body = (form: typeof jsonForm): Buffer =>
      Buffer.concat([...form.list(resource, objects, metadata)].map((part) => Buffer.from(part)));
    const [faked] = [readList(protobufOf(resource), resource, body(protobufForm))];
    expect(faked.changes).toEqual(
      readList(protobufOf(resource), resource, bytesOf(list.protobuf)).changes,
    );
    expect(faked).toEqual(readList(json, resource, body(jsonForm)));
  });
});
