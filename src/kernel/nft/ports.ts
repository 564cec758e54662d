/** Ports in rules. */
import { NFT_CMP, NFT_REG_1 } from './constants.ts';
import { dport, register, type Selector, type Statement, type Writer } from './rule.ts';

/** `th dport & 0`: what takes the place of the port in keys of all ports. */
export const noPort: Selector = {
  slots: 1,
  load: (out, slot) => {
    dport.load(out, slot);
    const [mask, xor] = [new Uint8Array(2), new Uint8Array(2)];
    const at = register(slot);
    out.write('bitwise', { source: at, destination: at, length: 2, mask, xor });
  },
};

/** `th dport 80` */
export function matchPort(port: number): Statement {
  return (out) => {
    dport.load(out, 0);
    compare(out, NFT_CMP.EQ, port);
  };
}

/** `th dport 10000-19999` */
export function matchPorts(first: number, last: number): Statement {
  return (out) => {
    dport.load(out, 0);
    compare(out, NFT_CMP.GTE, first);
    compare(out, NFT_CMP.LTE, last);
  };
}

function compare(out: Writer, operation: number, port: number): void {
  const data = Uint8Array.of(port >> 8, port & 0xff);
  out.write('cmp', { register: NFT_REG_1, operation, data });
}
