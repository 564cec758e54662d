/** Why a connection got no answer, as neighbours, routes and sockets of this node show it. */
import { counted } from '../../ask/words.ts';
import type { ReadableFiles } from '../../host/files.ts';
import { waitingAt } from '../../host/tcp-sockets.ts';
import { type Address, formatAddress } from '../../net/address.ts';

/** `own`: addresses of this machine. Undefined: nothing of it explains it. */
export function causeOf(
  machine: ReadableFiles,
  { address, port }: { readonly address: Address; readonly port: number },
  own: readonly Address[],
): string | undefined {
  if (own.some(({ key }) => key === address.key)) {
    const waiting = waitingAt(machine, address, port);
    if (waiting === 0) return undefined;
    return `its accept queue is full: ${counted(waiting, 'connection')} wait for its program`;
  }
  return address.family === 'IPv4' ? deadHop(machine, address) : undefined;
}

/** The machine on the way, or the endpoint itself, to whose address no link answers. */
function deadHop(machine: ReadableFiles, address: Address): string | undefined {
  const to = formatAddress(address.bytes);
  const hop = gatewayTo(machine, address) ?? to;
  const device = unresolvedOn(machine, hop);
  if (device === undefined) return undefined;
  const what = hop === to ? 'no machine has its address' : `its next hop ${hop} does not answer`;
  return `${what} on ${device} (ip neigh show ${hop})`;
}

/** Of the most specific route; undefined: it is on a link, or there is no route. */
function gatewayTo(machine: ReadableFiles, { bytes }: Address): string | undefined {
  // Numbers of the file are in the byte order of our machines: the last byte first.
  const word = Buffer.from(bytes).readUInt32LE();
  let [longest, gateway] = [-1, 0];
  for (const line of (machine.read('/proc/net/route') ?? '').split('\n').slice(1)) {
    const [, destination = '', via = '', , , , , mask = ''] = line.split('\t');
    const [block, of, bits] = [destination, via, mask].map((text) => Number.parseInt(text, 16));
    // A longer prefix has all bits of a shorter one, and more.
    if ((word & bits!) >>> 0 !== block || bits! <= longest) continue;
    [longest, gateway] = [bits!, of!];
  }
  if (gateway === 0) return undefined;
  const found = Buffer.alloc(4);
  found.writeUInt32LE(gateway);
  return formatAddress(found);
}

/** The device on which the kernel asks for the address in vain (ATF_COM is missing). */
function unresolvedOn(machine: ReadableFiles, address: string): string | undefined {
  for (const line of (machine.read('/proc/net/arp') ?? '').split('\n').slice(1)) {
    const [ip, , flags, , , device] = line.split(/ +/);
    if (ip === address && (Number(flags) & 2) === 0) return device;
  }
  return undefined;
}
