/** Sets of ipset in memory. Tests add them; the product only reads and destroys them. */
import type { ipsetOps, ipsetReplies, ipsetRequests } from '../../src/kernel/ipset-ops.ts';
import type { RecordOf } from '../../src/kernel/records.ts';
import { Refusal } from './refusal.ts';

export type IpsetOp = RecordOf<typeof ipsetOps>;
export type IpsetRequest = RecordOf<typeof ipsetRequests>;

export interface FakeIpset {
  readonly type: string;
  readonly references: number;
  /** The ports of its members, in host order. */
  readonly ports: readonly number[];
}

export class FakeIpsets {
  readonly sets = new Map<string, FakeIpset>();

  run({ set }: IpsetOp): void {
    if ((this.sets.get(set)?.references ?? 0) > 0) throw new Refusal('EPROTO');
    this.sets.delete(set);
  }

  answer(request: IpsetRequest): RecordOf<typeof ipsetReplies>[] {
    if (request.kind === 'ipsetsDump') {
      return [...this.sets].map(([set, { type, references }]) => {
        return { kind: 'ipset', set, type, references };
      });
    }
    const ports = this.sets.get(request.set)?.ports;
    if (ports === undefined) return [];
    const bytes = new Uint8Array(2 * ports.length);
    const view = new DataView(bytes.buffer);
    ports.forEach((port, i) => {
      view.setUint16(2 * i, port);
    });
    return [{ kind: 'ipsetPorts', ports: bytes }];
  }
}
