import { readIPv4 } from '../../../net/address.ts';
import {
  type Columns,
  ColumnWriter,
  conditionBits,
  type EndpointContext,
  noNames,
  podHash,
} from '../../decode/endpoint-columns.ts';
import { endsStep, entriesMax } from '../../decode/entries.ts';
import { WireError, type WireReader } from './wire.ts';

/** The tag of a field: its number, and its wire type in the low three bits. */
const tags = {
  addresses: 0x0a,
  conditions: 0x12,
  targetRef: 0x22,
  nodeName: 0x32,
  zone: 0x3a,
  hints: 0x42,
  ready: 0x08,
  serving: 0x10,
  terminating: 0x18,
  forZones: 0x0a,
  forNodes: 0x12,
  name: 0x0a,
  podName: 0x1a,
} as const;

/**
 * Reads endpoints directly into columns, in steps: a full list has 240,000. Undefined if one of
 * them is unusual: then they are decoded one by one, which reports problems.
 */
export function* readColumns(
  reader: WireReader,
  positions: readonly number[],
  context: EndpointContext,
): Generator<undefined, Columns | undefined> {
  const writer = new ColumnWriter(context, positions.length);
  const endpoint = new EndpointReader(reader, context);
  for (let i = 0; i < positions.length; i += 1) {
    if (endsStep(i)) yield;
    reader.at = positions[i]!;
    try {
      if (!endpoint.read(writer)) return undefined;
    } catch (error) {
      throw error instanceof WireError ? error.within(`endpoints[${i}]`) : error;
    }
  }
  return writer.columns();
}

class EndpointReader {
  readonly #reader: WireReader;
  readonly #isIPv4: boolean;
  /** The fields of an endpoint: one object for all, because there are hundreds of thousands. */
  readonly #found = {
    conditions: 0,
    node: '',
    zone: '',
    hintedNodes: noNames,
    hintedZones: noNames,
    pod: 0,
  };

  constructor(reader: WireReader, { family }: EndpointContext) {
    this.#reader = reader;
    this.#isIPv4 = family === 'IPv4';
  }

  /** Reads one endpoint. False unless it has one ordinary address, and all hints have names. */
  read(writer: ColumnWriter): boolean {
    const reader = this.#reader;
    const found = this.#found;
    found.conditions = conditionBits(undefined, undefined, undefined);
    found.node = '';
    found.zone = '';
    found.hintedNodes = noNames;
    found.hintedZones = noNames;
    found.pod = 0;
    let addresses = 0;
    const outer = reader.enter();
    while (reader.at < reader.end) {
      const tag = reader.tag();
      if (tag === tags.addresses) {
        addresses += 1;
        if (!this.#address(writer)) return false;
      } else if (tag === tags.nodeName) found.node = reader.common();
      else if (tag === tags.conditions) this.#readConditions();
      else if (tag === tags.targetRef) this.#readPod();
      else if (tag === tags.zone) found.zone = reader.common();
      else if (tag !== tags.hints) reader.skip(tag);
      else if (!this.#readHints()) return false;
    }
    reader.leave(outer);
    if (addresses !== 1) return false;
    writer.add(found);
    return true;
  }

  #address(writer: ColumnWriter): boolean {
    const reader = this.#reader;
    const length = reader.length();
    const from = reader.at;
    reader.at += length;
    if (!this.#isIPv4) {
      return writer.writeOrdinaryIPv6(reader.bytes.toString('latin1', from, reader.at));
    }
    const value = readIPv4(reader.bytes, from, reader.at);
    return value >= 0 && writer.writeOrdinaryIPv4(value, length);
  }

  #readConditions(): void {
    const reader = this.#reader;
    const outer = reader.enter();
    let ready: boolean | undefined;
    let serving: boolean | undefined;
    let terminating: boolean | undefined;
    while (reader.at < reader.end) {
      const tag = reader.tag();
      if (tag === tags.ready) ready = reader.flag();
      else if (tag === tags.serving) serving = reader.flag();
      else if (tag === tags.terminating) terminating = reader.flag();
      else reader.skip(tag);
    }
    reader.leave(outer);
    this.#found.conditions = conditionBits(ready, serving, terminating);
  }

  #readPod(): void {
    const reader = this.#reader;
    const outer = reader.enter();
    while (reader.at < reader.end) {
      const tag = reader.tag();
      if (tag !== tags.podName) {
        reader.skip(tag);
        continue;
      }
      const length = reader.length();
      this.#found.pod = podHash(reader.bytes, reader.at, reader.at + length);
      reader.at += length;
    }
    reader.leave(outer);
  }

  #readHints(): boolean {
    const reader = this.#reader;
    const zones: string[] = [];
    const nodes: string[] = [];
    const outer = reader.enter();
    while (reader.at < reader.end && zones.length + nodes.length <= entriesMax.others) {
      const tag = reader.tag();
      if (tag === tags.forZones) zones.push(this.#name());
      else if (tag === tags.forNodes) nodes.push(this.#name());
      else reader.skip(tag);
    }
    reader.leave(outer);
    this.#found.hintedZones = zones;
    this.#found.hintedNodes = nodes;
    if (zones.length + nodes.length > entriesMax.others) return false;
    return !zones.includes('') && !nodes.includes('');
  }

  #name(): string {
    const reader = this.#reader;
    let name = '';
    const outer = reader.enter();
    while (reader.at < reader.end) {
      const tag = reader.tag();
      if (tag === tags.name) name = reader.common();
      else reader.skip(tag);
    }
    reader.leave(outer);
    return name;
  }
}
