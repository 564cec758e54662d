/** The lines of `fairlead drops`: a limited number in each second. */
import type { FoundDrop } from '../../ask/drops.ts';
import type { Explanation } from '../../ask/explanation.ts';
import { apiVersion } from '../../ask/paths.ts';
import { formatAddress, formatEndpoint, joinHostPort } from '../../net/address.ts';
import { formatServicePort } from '../../net/protocol.ts';
import type { Drop } from '../../tools/trace/drops.ts';
import type { Io } from '../command.ts';

/** The most lines in a second; for each the process is asked. */
const linesMax = 20;

interface LinesOptions extends Pick<Io, 'stdout' | 'stderr'> {
  readonly asJson: boolean;
  /** Addresses of this machine, as text. */
  readonly own: ReadonlySet<string>;
  /** What the rules of this proxy do with packets; undefined: not known. */
  readonly explain: (
    to: string,
    from: string,
  ) => Promise<Pick<Explanation, 'outcome' | 'service' | 'summary' | 'warnings'> | undefined>;
  /** Milliseconds, monotonic. */
  readonly now: () => number;
}

export class DropLines {
  /** The number of lines. */
  found = 0;
  readonly #options: LinesOptions;
  #secondMs = Number.NEGATIVE_INFINITY;
  #lines = 0;
  #leftOut = 0;

  constructor(options: LinesOptions) {
    this.#options = options;
  }

  async print(drop: Drop): Promise<void> {
    const { asJson, explain, now, own, stdout } = this.#options;
    const nowMs = now();
    if (nowMs - this.#secondMs >= 1000) {
      this.rest();
      [this.#secondMs, this.#lines] = [nowMs, 0];
    }
    if (this.#lines === linesMax || stdout.isPending) {
      this.#leftOut += 1;
      return;
    }
    this.#lines += 1;
    this.found += 1;
    const client = formatAddress(drop.client);
    const to = `${formatEndpoint(drop.address, drop.port)}/${drop.protocol}`;
    const found = foundOf(drop, client, await explain(to, own.has(client) ? 'node' : client));
    stdout.write(asJson ? `${JSON.stringify(found)}\n` : lineOf(found));
  }

  /** Says how many lines were not printed. */
  rest(): void {
    const { stderr } = this.#options;
    if (this.#leftOut > 0) stderr.write(`${this.#leftOut} more were not shown.\n`);
    this.#leftOut = 0;
  }
}

function foundOf(
  drop: Drop,
  client: string,
  explained: Awaited<ReturnType<LinesOptions['explain']>>,
): FoundDrop {
  const { address, because, interface: name, outcome, port, protocol } = drop;
  const { outcome: own = 'endpoint', service, summary = '', warnings = [] } = explained ?? {};
  const isRefused = own !== 'endpoint';
  const isOurs = drop.isOurs ?? (isRefused && outcome === 'unknown');
  const isByRule = outcome === 'dropped' || outcome === 'rejected';
  const unseen = warnings[0] ?? 'It did not get through; a second packet would show where.';
  return {
    ...{ apiVersion, kind: 'Drop', time: new Date().toISOString() },
    ...{ client, interface: name, address: formatAddress(address), port, protocol },
    family: address.length === 4 ? 'IPv4' : 'IPv6',
    service: service && formatServicePort(`${service.namespace}/${service.name}`, service.port),
    outcome: outcome === 'unknown' && isRefused && own !== 'nobody' ? own : outcome,
    by: isOurs ? 'fairlead' : isByRule ? 'another program' : 'unknown',
    because: isOurs && isRefused ? summary : (because ?? unseen),
  };
}

/** `14:02:11 10.244.1.4 to 10.96.0.10:80/TCP (shop/web:http) dropped by another program: …` */
function lineOf(found: FoundDrop): string {
  const { address, because, by, client, outcome, port, protocol, service, time } = found;
  const to = `${joinHostPort(address, port)}/${protocol}`;
  const fate =
    by === 'unknown' || outcome === 'unknown' ? 'did not get through' : `${outcome} by ${by}`;
  const whose = service === undefined ? '' : ` (${service})`;
  return `${time.slice(11, 19)} ${client} to ${to}${whose} ${fate}: ${because}\n`;
}
