/**
 * Cases of ops without transactions, for IPVS and links: the kernel's outcome for each buffer. The
 * fake kernel must have the same outcomes (fake.test.ts), and the same state afterwards.
 */
import { IP_VS_CONN_F, IP_VS_SVC_F } from '../../src/kernel/ipvs-ops.ts';
import type { ApplyResult, Kernel } from '../../src/kernel/kernel.ts';
import type { KernelOp, Reply } from '../../src/kernel/ops.ts';
import { formatAddress, parseAddress } from '../../src/net/address.ts';
import { batch, dumped } from './ops.ts';

export interface SingleCase {
  readonly title: string;
  /** Buffers with their outcomes: `applied`, or the failures, perhaps after `partly`. */
  readonly steps: readonly (readonly [ops: readonly KernelOp[], outcome: string])[];
}

function caseOf(title: string, steps: SingleCase['steps']): SingleCase {
  return { title, steps };
}

export const AF = { INET: 2, INET6: 10 } as const;
const protocols = { tcp: 6, udp: 17, sctp: 132 } as const;

/** `tcp 10.96.0.10:80`, `udp [fd00::1]:53` */
export function virtualService(text: string) {
  const [protocol, endpoint] = text.split(' ') as [keyof typeof protocols, string];
  const { address, port, family } = endpointOf(endpoint);
  return { family, protocol: protocols[protocol], address, port };
}

function endpointOf(text: string) {
  const colon = text.lastIndexOf(':');
  const { bytes } = parseAddress(text.slice(0, colon).replace(/^\[|\]$/g, ''))!;
  const family = bytes.length === 4 ? AF.INET : AF.INET6;
  return { address: bytes, port: Number(text.slice(colon + 1)), family };
}

type ServiceOp = Extract<KernelOp, { kind: 'virtualServiceAdd' }>;
type DestinationOp = Extract<KernelOp, { kind: 'destinationAdd' }>;

export function addService(text: string, settings: Partial<ServiceOp> = {}): ServiceOp {
  const key = virtualService(text);
  const prefixLength = key.family === AF.INET ? 32 : 128;
  const usual = { scheduler: 'rr', flags: 0, timeoutSeconds: 0, prefixLength };
  return { ...key, ...usual, ...settings, kind: 'virtualServiceAdd' };
}

export function setService(text: string, settings: Partial<ServiceOp> = {}): KernelOp {
  return { ...addService(text, settings), kind: 'virtualServiceSet' };
}

export function deleteService(text: string): KernelOp {
  return { kind: 'virtualServiceDelete', ...virtualService(text) };
}

export function addDestination(
  service: string,
  to: string,
  settings: Partial<DestinationOp> = {},
): DestinationOp {
  const { address: destination, port: destinationPort } = endpointOf(to);
  const limits = { upperThreshold: 0, lowerThreshold: 0 };
  const usual = { forwarding: IP_VS_CONN_F.MASQ, weight: 1, ...limits };
  const keys = { ...virtualService(service), destination, destinationPort };
  return { ...keys, ...usual, ...settings, kind: 'destinationAdd' };
}

export function setDestination(
  service: string,
  to: string,
  settings: Partial<DestinationOp> = {},
): KernelOp {
  return { ...addDestination(service, to, settings), kind: 'destinationSet' };
}

export function deleteDestination(service: string, to: string): KernelOp {
  const { address: destination, port: destinationPort } = endpointOf(to);
  const kind = 'destinationDelete';
  return { kind, ...virtualService(service), destination, destinationPort };
}

export const addLink = { kind: 'linkAdd', link: 'vips', type: 'bridge' } as const;

export function addAddresses(link: string, ...texts: readonly string[]) {
  return { kind: 'addressesAdd', flags: 0, ...addresses(link, texts) } as const;
}

export function deleteAddresses(link: string, ...texts: readonly string[]) {
  return { kind: 'addressesDelete', ...addresses(link, texts) } as const;
}

function addresses(link: string, texts: readonly string[]) {
  const parsed = texts.map((text) => parseAddress(text)!);
  const { family } = parsed[0]!;
  const prefixLength = family === 'IPv4' ? 32 : 128;
  const bytes = Buffer.concat(parsed.map((each) => each.bytes));
  const number = family === 'IPv4' ? AF.INET : AF.INET6;
  return { family: number, link, index: 0, prefixLength, addresses: bytes };
}

const web = 'tcp 10.96.0.10:80';
const dns = 'udp [fd96::10]:53';

export const routeCases: readonly SingleCase[] = [
  caseOf('addresses come and go one by one, and what is refused keeps nothing else back', [
    [[addLink, addAddresses('vips', '10.0.0.1', '10.0.0.2')], 'applied'],
    [
      [addAddresses('vips', '10.0.0.2', '10.0.0.3', '10.0.0.1'), addLink],
      'partly: EEXIST at 0 entry 0, EEXIST at 0 entry 2',
    ],
    [
      [deleteAddresses('vips', '10.0.0.9', '10.0.0.2'), addAddresses('vips', 'fd00::1')],
      'partly: EADDRNOTAVAIL at 0 entry 0',
    ],
    [[deleteAddresses('vips', '10.0.0.9')], 'EADDRNOTAVAIL at 0 entry 0'],
  ]),
  caseOf('a link that is not there has no addresses, and cannot be deleted', [
    [
      [addAddresses('vips', '10.0.0.1', '10.0.0.2'), { kind: 'linkDelete', link: 'vips' }],
      'ENODEV at 0, ENODEV at 1',
    ],
    [[{ ...addLink, type: 'no-such-type' }], 'EOPNOTSUPP at 0'],
  ]),
  caseOf('a link takes its addresses with it', [
    [[addLink, addAddresses('vips', '10.0.0.1')], 'applied'],
    [[{ kind: 'linkDelete', link: 'vips' }, addLink], 'applied'],
  ]),
  {
    title:
      'a run that fails ends the buffer, a failed transaction counts for nothing, a link stays',
    steps: [
      [
        [
          addLink,
          { kind: 'tableAdd', family: AF.INET, table: 't', comment: '' },
          { kind: 'chainDelete', family: AF.INET, table: 't', chain: 'absent' },
          addAddresses('vips', '10.0.0.1'),
        ],
        'partly: ENOENT at 2',
      ],
      [
        [
          addAddresses('vips', '10.0.0.1'),
          addAddresses('vips', '10.0.0.1'),
          { kind: 'tableAdd', family: AF.INET, table: 't', comment: '' },
        ],
        'partly: EEXIST at 1 entry 0',
      ],
      [[addLink, { ...addLink, type: 'veth' }], 'applied'],
    ],
  },
];

export const ipvsCases: readonly SingleCase[] = [
  caseOf('virtual services come, change and go with their destinations', [
    [
      [
        addService(web),
        addDestination(web, '10.244.0.1:8080'),
        addDestination(web, '10.244.0.2:8080', { weight: 0 }),
        addService(dns, { scheduler: 'wlc' }),
        addDestination(dns, '[fd24::1]:53', { weight: 7 }),
      ],
      'applied',
    ],
    [
      [
        setService(web, {
          scheduler: 'sh',
          flags: IP_VS_SVC_F.PERSISTENT | IP_VS_SVC_F.SCHED2,
          timeoutSeconds: 10_800,
          prefixLength: 24,
        }),
        setDestination(web, '10.244.0.1:8080', { weight: 3, upperThreshold: 9 }),
        deleteDestination(web, '10.244.0.2:8080'),
      ],
      'applied',
    ],
    [[deleteService(web), addService(web)], 'applied'],
  ]),
  caseOf('what is there already and what is not is told for each op', [
    [[addService(web), addDestination(web, '10.244.0.1:80')], 'applied'],
    [
      [
        addService(web),
        addDestination(web, '10.244.0.1:80', { weight: 2 }),
        setDestination(web, '10.244.0.2:80'),
        deleteDestination(web, '10.244.0.2:80'),
        addDestination(web, '10.244.0.3:80'),
        setService(dns),
        deleteService(dns),
        addDestination(dns, '[fd24::1]:53'),
        deleteDestination(dns, '[fd24::1]:53'),
      ],
      'partly: EEXIST at 0, EEXIST at 1, ENOENT at 2, ENOENT at 3, ' +
        'ESRCH at 5, ESRCH at 6, ESRCH at 7, ESRCH at 8',
    ],
  ]),
  caseOf('a scheduler that the kernel does not have is refused', [
    [[addService(web, { scheduler: 'none-such' })], 'ENOENT at 0'],
    [[addService(web), setService(web, { scheduler: 'none-such' })], 'partly: ENOENT at 1'],
  ]),
  caseOf('numbers out of range are refused', [
    [
      [
        addService(web),
        addDestination(web, '10.244.0.1:80', { weight: 0x7fffffff }),
        addDestination(web, '10.244.0.2:80', { weight: 0x80000000 }),
        addDestination(web, '10.244.0.3:80', { upperThreshold: 1, lowerThreshold: 2 }),
        setDestination(web, '10.244.0.1:80', { upperThreshold: 1, lowerThreshold: 2 }),
      ],
      'partly: ERANGE at 2, ERANGE at 3, ERANGE at 4',
    ],
    [[addService(dns, { prefixLength: 0 })], 'EINVAL at 0'],
  ]),
  caseOf('a destination must be a unicast address, and of the family unless it is tunnelled to', [
    [
      [
        addService(web),
        addService(dns),
        addDestination(web, '224.0.0.1:80'),
        addDestination(web, '0.0.0.0:80'),
        addDestination(dns, '[ff02::1]:53'),
        addDestination(dns, '[fe80::1]:53'),
        addDestination(web, '[fd24::1]:80'),
        addDestination(web, '[fd24::2]:80', { forwarding: IP_VS_CONN_F.TUNNEL }),
        addDestination(web, '10.244.0.1:80', { forwarding: IP_VS_CONN_F.DROUTE }),
      ],
      'partly: EINVAL at 2, EINVAL at 3, EINVAL at 4, EINVAL at 5, EINVAL at 6',
    ],
  ]),
  caseOf('one address and port is as many services as there are protocols', [
    [
      [
        addService('tcp 10.96.0.10:53'),
        addService('udp 10.96.0.10:53', { flags: IP_VS_SVC_F.ONEPACKET }),
        addService('sctp 10.96.0.10:53'),
        addDestination('udp 10.96.0.10:53', '10.244.0.1:53'),
        deleteService('tcp 10.96.0.10:53'),
      ],
      'applied',
    ],
  ]),
  caseOf('timeouts that are zero stay as they are', [
    [[{ kind: 'ipvsTimeoutsSet', tcpSeconds: 700, tcpFinSeconds: 0, udpSeconds: 30 }], 'applied'],
    [[{ kind: 'ipvsTimeoutsSet', tcpSeconds: 0, tcpFinSeconds: 9, udpSeconds: 0 }], 'applied'],
  ]),
];

/** The outcomes of the steps, and the state of the kernel after each of them. */
export async function recordSingle(kernel: Kernel, { steps }: SingleCase, read: Read) {
  const outcomes: string[] = [];
  const states: unknown[] = [];
  for (const [ops] of steps) {
    outcomes.push(outcomeText(await kernel.apply(batch(...ops))));
    states.push(await read(kernel));
  }
  return { outcomes, states };
}

export type Read = (kernel: Kernel) => Promise<unknown>;

function outcomeText(result: ApplyResult): string {
  if (result.kind === 'applied') return 'applied';
  const inOrder = [...result.failures].sort((a, b) => (a.op ?? 0) - (b.op ?? 0));
  const texts = inOrder.map(({ op, entry, code }) => {
    return `${code} at ${op}${entry === undefined ? '' : ` entry ${entry}`}`;
  });
  return `${result.partly ? 'partly: ' : ''}${texts.join(', ')}`;
}

/** All of IPVS, in an order of our own. */
export async function readIpvs(kernel: Kernel): Promise<unknown> {
  const everything = { family: 0, protocol: 0, address: new Uint8Array(0), port: 0 };
  const services = { kind: 'virtualServicesDump', family: 0 } as const;
  return {
    services: sorted(await dumped(kernel, 'virtualService', services)),
    destinations: sorted(
      await dumped(kernel, 'destination', { kind: 'destinationsDump', ...everything }),
    ),
    timeouts: await dumped(kernel, 'ipvsTimeouts', { kind: 'ipvsTimeoutsGet' }),
  };
}

/** The link of the cases and its addresses, without index and flags. */
export async function readLinks(kernel: Kernel): Promise<unknown> {
  const [link] = await dumped(kernel, 'link', { kind: 'linkGet', link: 'vips' });
  const request = { kind: 'addressesDump', family: 0, link: 'vips' } as const;
  const found = await dumped(kernel, 'address', request);
  const texts = found.map((each) => `${formatAddress(each.address)}/${each.prefixLength}`);
  // Without the address that the kernel gives each link that is up.
  return { type: link?.type, addresses: texts.filter((text) => !text.startsWith('fe80:')).sort() };
}

function sorted(records: readonly Reply[]): string[] {
  const asHex = (_: string, value: unknown): unknown =>
    value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value;
  const inOrder = (record: Reply): object => Object.fromEntries(Object.entries(record).sort());
  return records.map((record) => JSON.stringify(inOrder(record), asHex)).sort();
}
