import type { Conntrack, ConntrackDump, ConntrackRequest } from '../kernel/conntrack.ts';

/** Attempts at an uninterrupted dump. The result of the last attempt is used as it is. */
const dumpsMax = 5;

export async function wholeDump(
  conntrack: Conntrack,
  request: ConntrackRequest,
): Promise<ConntrackDump> {
  let dump = await conntrack.dump(request);
  for (let i = 1; i < dumpsMax && !dump.complete; i += 1) dump = await conntrack.dump(request);
  return dump;
}
