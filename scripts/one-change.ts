/** Draws docs/one-change.svg, the picture of ARCHITECTURE.md. */
import { type Row, svgOfRows } from './boxes.ts';

const rows: readonly Row[] = [
  {
    name: 'A change',
    boxes: [
      { title: 'source', lines: ['Delivery.decode', 'changeInSteps'] },
      { title: 'state', lines: ['ClusterState.apply', 'marks the Service'] },
      { title: 'sync', lines: ['Desired.refresh', 'yields Forwardings'] },
      { title: 'mode', lines: ['ModePlanner.change', 'ModePlanner.take'] },
      { title: 'kernel', lines: ['NativeKernel.apply', 'sends one batch'] },
    ],
    result: 'costs what has changed',
    isOurs: true,
  },
  {
    name: 'Its acknowledgement',
    boxes: [
      { title: 'kernel', lines: ['acknowledges all', 'or reports an error'] },
      { title: 'mode', lines: ['Batch.committed', 'or Batch.refused'] },
      { title: 'sync', lines: ['InForce.set keeps', 'the only record'] },
      { title: 'subscribers', lines: ['tracking, sockets,', 'connect time'] },
      { title: 'serve', lines: ['metrics, health,', 'answers'] },
    ],
    result: 'one record, many readers',
    isOurs: true,
  },
  {
    name: 'A start, a failure, an audit',
    boxes: [
      { title: 'kernel', lines: ['NativeKernel.dump', 'reads the tables'] },
      { title: 'mode', lines: ['ModePlanner.observe', 'yields objects'] },
      { title: 'comparison', lines: ['with the desired', 'objects'] },
      { title: 'Repair', lines: ['the difference, in', 'batches'] },
      { title: 'kernel', lines: ['NativeKernel.apply', 'only if they differ'] },
    ],
    result: 'a restart without changes writes nothing',
    isOurs: false,
  },
];

export function oneChangeSvg(): string {
  return svgOfRows('How one change gets into the kernel, and who learns of it', rows);
}
