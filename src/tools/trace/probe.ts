/** Sends packets in the same way as any program of this node. */
import { type Reached, reach } from '../../host/reach.ts';
import { formatAddress } from '../../net/address.ts';
import { type Target, targetText } from './target.ts';

const patienceMs = 1000;

/** Resolves to the outcome; undefined: this program cannot send such packets. */
export function probe({ address, port, protocol }: Target): Promise<Reached | undefined> {
  const to = { address: formatAddress(address.bytes), family: address.family, port };
  return reach(protocol, to, patienceMs);
}

/** The outcome of all of them, in a sentence. */
export function probesText(target: Target, all: readonly Reached[]): string {
  const what = target.protocol === 'TCP' ? 'connection' : 'datagram';
  const to = `of this node to ${targetText(target)}`;
  if (all.length === 1) return `The ${what} ${to} ${fateOf(all[0]!)}.`;
  const fates = Array.from(Map.groupBy(all, fateOf), ([fate, { length }]) => {
    return `${length} ${length === 1 ? fate : fate.replace(/^was/, 'were')}`;
  });
  return `Of ${all.length} ${what}s ${to}, ${fates.join('; ')}.`;
}

function fateOf({ answer, error }: Reached): string {
  if (answer === 'connected') return 'was accepted';
  if (answer === 'answered') return 'was answered';
  if (answer === 'silent') return 'was sent, and nothing came back';
  if (answer === 'timeout') return `was not answered within ${patienceMs / 1000} s`;
  return `failed: ${error}`;
}
