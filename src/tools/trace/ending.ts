/** The outcome of a traced packet, and of several by endpoint. */
import type { Trace } from '../../ask/trace.ts';
import type { Protocol } from '../../net/protocol.ts';

type Packet = Trace['packets'][number];
type Followed = Pick<Packet, 'answered' | 'because' | 'destination' | 'outcome'>;

/** The sentence, and whether the packet was delivered. For datagrams that is not known. */
export function endingOf(
  { answered, because, destination, outcome }: Followed,
  protocol: Protocol,
): Pick<Packet, 'ended' | 'failed'> {
  if (outcome !== 'endpoint') return { ended: because, failed: true };
  if (answered === 'refused') {
    return { ended: `It was refused by ${destination}: nothing listens there.`, failed: true };
  }
  if (answered === 'yes') return { ended: `It was answered by ${destination}.`, failed: false };
  if (answered === undefined) {
    const ended = `It went to ${destination}; connection tracking does not say what came back.`;
    return { ended, failed: false };
  }
  if (protocol === 'UDP') {
    return { ended: `It went to ${destination}; nothing has come back yet.`, failed: false };
  }
  const ended = `It was not answered by ${destination} yet: the fault may be at its end, or on the way back.`;
  return { ended, failed: true };
}

/** By endpoint, in the order of the first packet to each. */
export function byEndpoint(packets: readonly Packet[]): Trace['endpoints'] {
  const found = new Map<string, { packets: number; refused: number; unanswered: number }>();
  for (const { answered, destination, outcome } of packets) {
    if (outcome !== 'endpoint') continue;
    const counts = found.get(destination) ?? { packets: 0, refused: 0, unanswered: 0 };
    counts.packets += 1;
    if (answered === 'refused') counts.refused += 1;
    if (answered === 'no') counts.unanswered += 1;
    found.set(destination, counts);
  }
  return Array.from(found, ([endpoint, counts]) => ({ endpoint, ...counts }));
}
