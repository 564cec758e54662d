/** Programs that translate connections, and their maps, in memory. */

import { isDeepStrictEqual } from 'node:util';
import { crc32 } from 'node:zlib';
import {
  BPFState,
  type bpfOps,
  type bpfReplies,
  type bpfRequests,
} from '../../src/kernel/bpf-ops.ts';
import { KernelError } from '../../src/kernel/errors.ts';
import type { RecordOf } from '../../src/kernel/records.ts';
import { Refusal } from './refusal.ts';

export type BpfOp = RecordOf<typeof bpfOps>;
export type BpfRequest = RecordOf<typeof bpfRequests>;

type State = (typeof BPFState)[keyof typeof BPFState];
interface Link {
  readonly cgroup: string;
  readonly all: number;
  readonly counts: number;
  readonly excludes: number;
}

/** Bytes of keys and values, as native/bpf/layout.h has them. */
const shapes: Readonly<Record<string, readonly [key: number, value: number]>> = {
  frontends: [20, 24],
  endpoints: [24, 80],
  counts: [40, 8],
  excluded: [8, 4],
  secret: [4, 16],
  lease: [4, 8],
};

const suffixes: Readonly<Record<number, string>> = { 2: '4', 10: '6' };
const mapsOf = (family: number): string[] =>
  Object.keys(shapes).map((name) => `${name}${suffixes[family]}`);

function mostIn(
  name: string,
  { frontendsMax, endpointsMax }: { readonly frontendsMax: number; readonly endpointsMax: number },
): number {
  if (name.startsWith('counts')) return 2 ** 17;
  if (name.startsWith('excluded')) return 2 ** 12 + 1;
  if (name.startsWith('secret') || name.startsWith('lease')) return 1;
  return name.startsWith('frontends') ? frontendsMax : endpointsMax;
}

export function bpfElements(op: { readonly map: string; readonly keys: Uint8Array }): number {
  return op.keys.length / shapeOf(op.map)[0];
}

function shapeOf(map: string): readonly [number, number] {
  return shapes[map.slice(0, -1)]!;
}

export function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}

export class FakeBpf {
  /** What it lacks, in words; undefined = nothing. */
  lack: string | undefined;
  /** There is no memory for more elements in a map. */
  elementsMax = Number.POSITIVE_INFINITY;
  /** The most elements that maps were made for, by path. */
  readonly #most = new Map<string, number>();
  /** Maps by path: values by key, in hexadecimal. */
  readonly maps = new Map<string, Map<string, string>>();
  /** Attached programs, by folder and family. */
  readonly links = new Map<string, Link>();
  /** When leases end, by folder and family, in milliseconds of `now`. */
  readonly leases = new Map<string, number>();
  /** How often a lease was extended. */
  extensions = 0;
  /** Milliseconds since boot. */
  now = (): number => 0;
  /** Ids of links without a pin that we see, and the names of their programs. */
  readonly strays = new Map<number, string>();
  /** Why links cannot be listed, and not be detached. */
  readonly forbidden: { list?: string; detach?: string } = {};

  run(op: BpfOp): Refusal[] {
    switch (op.kind) {
      case 'bpfMapsAdd':
        for (const name of mapsOf(op.family)) {
          const path = `${op.directory}/${name}`;
          if (this.maps.has(path)) continue;
          this.maps.set(path, new Map());
          this.#most.set(path, mostIn(name, op));
        }
        return [];
      case 'bpfElementsAdd':
        return this.#add(op);
      case 'bpfElementsDelete':
        return this.#delete(op);
      case 'bpfLinksAdd':
        for (const name of mapsOf(op.family)) this.#map(op.directory, name);
        this.links.set(`${op.directory} ${op.family}`, {
          cgroup: op.cgroup,
          all: op.all,
          counts: op.counts,
          excludes: op.excludes,
        });
        return [];
      case 'bpfRemove':
        this.links.delete(`${op.directory} ${op.family}`);
        this.leases.delete(`${op.directory} ${op.family}`);
        for (const name of mapsOf(op.family)) this.maps.delete(`${op.directory}/${name}`);
        return [];
      case 'bpfLeaseExtend': {
        const at = `${op.directory} ${op.family}`;
        this.#map(op.directory, `lease${suffixes[op.family]}`);
        const endsAt = this.leases.get(at) ?? 0;
        if (op.onlyValid !== 0 && endsAt <= this.now()) return [new Refusal('ETIME')];
        this.leases.set(at, this.now() + op.milliseconds);
        this.extensions += 1;
        return [];
      }
      case 'bpfDetach':
        if (this.forbidden.detach !== undefined) return [new Refusal(this.forbidden.detach)];
        this.strays.delete(op.link);
        for (const at of [...this.links.keys()]) if (op.link === idOf(at)) this.links.delete(at);
        return [];
    }
  }

  answer(request: BpfRequest): RecordOf<typeof bpfReplies>[] {
    switch (request.kind) {
      case 'bpfStateGet':
        return [{ kind: 'bpfState', maps: this.#mapsState(request), links: this.#link(request) }];
      case 'bpfElementsDump':
        return this.#dump(request);
      case 'bpfElementsCount': {
        const map = this.maps.get(`${request.directory}/${request.map}`);
        return map === undefined ? [] : [{ kind: 'bpfCount', elements: map.size }];
      }
      case 'bpfAttachedGet': {
        const { list: code } = this.forbidden;
        if (code === undefined) return this.#attached(request.directory);
        const subject = request.directory;
        throw new KernelError({ operation: 'bpf.bpfAttachedGet', subject, code, words: code });
      }
      case 'bpfProbe': {
        if (this.lack === undefined) return [];
        const subject = request.directory;
        throw new KernelError({
          ...{ operation: 'bpf.bpfProbe', subject, code: 'EINVAL', words: this.lack },
        });
      }
    }
  }

  #attached(directory: string): RecordOf<typeof bpfReplies>[] {
    const about = { kind: 'bpfAttached', attachType: 10 } as const;
    const pinned = [...this.links.keys()].map((at) => {
      const isPinned = at.startsWith(`${directory} `) ? 1 : 0;
      return { ...about, link: idOf(at), program: idOf(at), name: 'connect4', isPinned };
    });
    const strays = Array.from(this.strays, ([link, name]) => {
      return { ...about, link, program: link, name, isPinned: 0 };
    });
    return [...pinned, ...strays];
  }

  /** The same for the same state. */
  text(): string {
    const maps = [...this.maps].map(([path, elements]) => {
      const lines = [...elements].map(([key, value]) => `  ${key} ${value}\n`).sort();
      return `${path}\n${lines.join('')}`;
    });
    const links = [...this.links].map(
      ([at, { cgroup, ...how }]) => `${at} to ${cgroup} ${Object.values(how).join(' ')}\n`,
    );
    return [...maps.sort(), ...links.sort()].join('');
  }

  #map(directory: string, name: string): Map<string, string> {
    const map = this.maps.get(`${directory}/${name}`);
    if (map === undefined) throw new Refusal('ENOENT');
    return map;
  }

  #add({ directory, map, keys, values }: Extract<BpfOp, { kind: 'bpfElementsAdd' }>): Refusal[] {
    const elements = this.#map(directory, map);
    const [keyBytes, valueBytes] = shapeOf(map);
    for (let i = 0; i < keys.length / keyBytes; i += 1) {
      const key = hex(keys.subarray(i * keyBytes, (i + 1) * keyBytes));
      const isNew = !elements.has(key);
      if (isNew && elements.size >= this.elementsMax) return [new Refusal('ENOMEM', i)];
      const most = this.#most.get(`${directory}/${map}`) ?? 0;
      if (isNew && elements.size >= most) return [new Refusal('E2BIG', i)];
      elements.set(key, hex(values.subarray(i * valueBytes, (i + 1) * valueBytes)));
    }
    return [];
  }

  #delete({ directory, map, keys }: Extract<BpfOp, { kind: 'bpfElementsDelete' }>): Refusal[] {
    const elements = this.#map(directory, map);
    const [keyBytes] = shapeOf(map);
    for (let i = 0; i < keys.length / keyBytes; i += 1) {
      const isThere = elements.delete(hex(keys.subarray(i * keyBytes, (i + 1) * keyBytes)));
      if (!isThere) return [new Refusal('ENOENT', i)];
    }
    return [];
  }

  #dump({ directory, map }: { readonly directory: string; readonly map: string }) {
    const elements = [...(this.maps.get(`${directory}/${map}`) ?? [])];
    const joined = (texts: readonly string[]) => new Uint8Array(Buffer.from(texts.join(''), 'hex'));
    return elements.length === 0
      ? []
      : [
          {
            kind: 'bpfElements' as const,
            keys: joined(elements.map(([key]) => key)),
            values: joined(elements.map(([, value]) => value)),
          },
        ];
  }

  #mapsState(request: Extract<BpfRequest, { kind: 'bpfStateGet' }>): State {
    const { directory, family } = request;
    const names = mapsOf(family);
    const there = names.filter((name) => this.maps.has(`${directory}/${name}`));
    if (there.length === 0) return BPFState.absent;
    const right = there.filter(
      (name) => this.#most.get(`${directory}/${name}`) === mostIn(name, request),
    );
    if (right.length < there.length) return BPFState.wrong;
    return there.length === names.length ? BPFState.right : BPFState.incomplete;
  }

  #link(request: Extract<BpfRequest, { kind: 'bpfStateGet' }>): State {
    const link = this.links.get(`${request.directory} ${request.family}`);
    if (link === undefined) return BPFState.absent;
    const { cgroup, all, counts, excludes } = request;
    const isRight = isDeepStrictEqual(link, { cgroup, all, counts, excludes });
    return isRight ? BPFState.right : BPFState.wrong;
  }
}

/** The id of a link; those of other folders have others. */
function idOf(at: string): number {
  return crc32(at);
}
