/**
 * Encodes JSON objects as the protobuf of Kubernetes. It uses protobuf.js, an implementation that
 * is not ours, with the published fields (kubernetes.proto).
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import protobuf from 'protobufjs';
import type { Raw } from './api-server-store.ts';

const path = join(import.meta.dirname, 'kubernetes.proto');
const { root } = protobuf.parse(readFileSync(path, 'utf8'), { keepCase: true });
root.resolveAll();
// Now, and not while a test that counts milliseconds waits for the first answer.
const { nestedArray } = root.lookup('kubernetes') as protobuf.Namespace;
for (const type of nestedArray) (type as protobuf.Type).setup();

/** The first bytes of every body, and of every object in an event. */
const magic = Buffer.from('k8s\0');

function encode(type: string, raw: Raw): Buffer {
  const message = root.lookupType(type);
  return Buffer.from(message.encode(message.fromObject(raw)).finish());
}

/** An object of one kind without an envelope, as in a list. */
export function encodeObject(kind: string, raw: Raw): Buffer {
  return encode(kind, convert(raw) as Raw);
}

/** Puts bytes of one kind into an envelope, as in a watch event or a body. */
export function envelop(apiVersion: string, kind: string, bytes: Buffer): Buffer {
  return Buffer.concat([envelopeHead(apiVersion, kind, bytes.length), bytes]);
}

/** The part of an envelope (runtime.Unknown) before this number of bytes of one kind. */
function envelopeHead(apiVersion: string, kind: string, length: number): Buffer {
  const writer = protobuf.Writer.create();
  writer.uint32(0x0a).fork().uint32(0x0a).string(apiVersion).uint32(0x12).string(kind).ldelim();
  return Buffer.concat([magic, writer.uint32(0x12).uint32(length).finish()]);
}

/**
 * One frame of a watch, a WatchEvent behind its length. The bytes of the object are copied once: a
 * server whose frames cost more than what it measures would hide that.
 */
export function encodeEvent(type: string, apiVersion: string, kind: string, bytes: Buffer): Buffer {
  const head = envelopeHead(apiVersion, kind, bytes.length);
  const objectLength = head.length + bytes.length;
  const raw = protobuf.Writer.create().uint32(0x0a).uint32(objectLength).finish();
  const rawLength = raw.length + objectLength;
  const event = protobuf.Writer.create().uint32(0x0a).string(type).uint32(0x12).uint32(rawLength);
  const fields = event.finish();
  const length = Buffer.alloc(4);
  length.writeUInt32BE(fields.length + rawLength);
  return Buffer.concat([length, fields, raw, head, bytes]);
}

export function encodeStatus(raw: Raw): Buffer {
  return envelop('v1', 'Status', encodeObject('Status', raw));
}

/** A list of objects that are encoded already. */
export function encodeList(
  apiVersion: string,
  kind: string,
  metadata: Raw,
  items: readonly Buffer[],
): Buffer {
  const writer = protobuf.Writer.create();
  writer.uint32(0x0a).bytes(encode('ListMeta', metadata));
  for (const item of items) writer.uint32(0x12).bytes(item);
  return envelop(apiVersion, kind, Buffer.from(writer.finish()));
}

/** Converts values that JSON writes in another way: times, and ports that are numbers or names. */
function convert(value: unknown, name = ''): unknown {
  if (name === 'targetPort') return intOrString(value);
  if (typeof value === 'string' && /(Timestamp|Time|^time|timeAdded)$/.test(name)) {
    return { seconds: Math.floor(Date.parse(value) / 1000) };
  }
  if (Array.isArray(value)) return value.map((item) => convert(item));
  if (typeof value !== 'object' || value === null) return value ?? undefined;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([, inner]) => inner !== null)
      .map(([key, inner]) => [key, isMap(key) ? inner : convert(inner, key)]),
  );
}

function isMap(name: string): boolean {
  return ['labels', 'annotations', 'selector', 'deprecatedTopology'].includes(name);
}

function intOrString(value: unknown): Raw {
  return typeof value === 'number' ? { type: 0, intVal: value } : { type: 1, strVal: value };
}
