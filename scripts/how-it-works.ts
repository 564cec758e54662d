/**
 * Draws docs/how-it-works.svg: one change on its way into the kernel, through kube-proxy's nftables
 * mode and through Fairlead.
 */
import { type Row, svgOfRows } from './boxes.ts';

const rows: readonly Row[] = [
  {
    name: 'kube-proxy, mode nftables',
    boxes: [
      { title: 'API server', lines: ['one endpoint', 'changes'] },
      { title: 'sync', lines: ['waits for its turn,', 'walks all Services'] },
      { title: 'text', lines: ['a script for', 'the nft program'] },
      { title: 'nft', lines: ['a new process', 'reads the ruleset'] },
      { title: 'kernel', lines: ['a chain for each', 'endpoint'] },
    ],
    result: 'time grows with the cluster',
    isOurs: false,
  },
  {
    name: 'Fairlead',
    boxes: [
      { title: 'API server', lines: ['one endpoint', 'changes'] },
      { title: 'resolve', lines: ['this Service alone,', 'by pure functions'] },
      { title: 'difference', lines: ['one element of', 'one map'] },
      { title: 'netlink', lines: ['one message, one', 'acknowledgement'] },
      { title: 'kernel', lines: ['the same few rules', 'whatever the size'] },
    ],
    result: 'time follows the change',
    isOurs: true,
  },
];

export function howItWorksSvg(): string {
  return svgOfRows(
    'One change on its way into the kernel, through kube-proxy and through Fairlead',
    rows,
  );
}
