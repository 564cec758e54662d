/** Connection tracking, as everything above the edge to the kernel sees it. */
import type { Family } from '../net/address.ts';
import type { Protocol } from '../net/protocol.ts';
import { loadAddon, type Socket, type SocketOptions } from './addon.ts';
import { ConntrackEntries, IPS } from './conntrack-entries.ts';
import { conntrackReplies, conntrackRequests } from './conntrack-ops.ts';
import { KernelError } from './errors.ts';
import { IPPROTO, NFPROTO } from './nft/constants.ts';
import { replies } from './ops.ts';
import { type RecordOf, RecordWriter, readRecords } from './records.ts';
import { errnoName, submit } from './submit.ts';

export interface ConntrackRequest {
  readonly family: Family;
  readonly protocol: Protocol;
  /** `unanswered`: only entries whose other end has never said anything (no IPS_SEEN_REPLY). */
  readonly state: 'any' | 'unanswered';
  /** Conntrack zone; 0 = the default one. Entries with a zone in one direction only never match. */
  readonly zone: number;
  /** The original destination; without it, any. */
  readonly destination?: {
    /** Network order; undefined = any. */
    readonly address: Uint8Array | undefined;
    /** Host order. */
    readonly port: number;
  };
}

export interface ConntrackDump {
  readonly entries: ConntrackEntries;
  /** False when entries may be missing: the dump was interrupted, or answers were lost. */
  readonly complete: boolean;
}

/** The result of a deletion. Entries that were gone already count as deleted. */
export interface ConntrackDeletion {
  readonly deleted: number;
  readonly gone: number;
  readonly failures: readonly {
    /** Index of the entry. */
    readonly index: number;
    /** Symbolic errno, e.g. `EBUSY`: the entry is offloaded to a flow table. */
    readonly code: string;
  }[];
}

export interface Conntrack {
  /** Rejects with KernelError when the kernel refuses. */
  dump(request: ConntrackRequest): Promise<ConntrackDump>;
  /**
   * Deletes these entries and not a later one with the same tuples. Each is deleted by itself.
   * Rejects with KernelError when nothing could be sent.
   */
  delete(entries: ConntrackEntries): Promise<ConntrackDeletion>;
  close(): void;
}

const answers = { ...conntrackReplies, dumped: replies.dumped, failed: replies.failed } as const;
type Answer = RecordOf<typeof answers>;

/**
 * Opens conntrack of this process's network namespace, or of another (`netns`, a path). Nothing is
 * sent yet. Throws when the addon is not built.
 */
export function openConntrack(options: Pick<SocketOptions, 'netns'> = {}): Conntrack {
  const { Socket } = loadAddon();
  const namespace = options.netns === undefined ? 'this namespace' : options.netns;
  return new NativeConntrack(new Socket(options), namespace);
}

class NativeConntrack implements Conntrack {
  readonly #socket: Socket;
  readonly #namespace: string;

  constructor(socket: Socket, namespace: string) {
    this.#socket = socket;
    this.#namespace = namespace;
  }

  async dump(request: ConntrackRequest): Promise<ConntrackDump> {
    const { family, protocol, state, zone, destination } = request;
    const writer = new RecordWriter(conntrackRequests, 256);
    writer.write('conntrackDump', {
      family: NFPROTO[family],
      protocol: IPPROTO[protocol],
      zone,
      status: 0,
      statusMask: state === 'unanswered' ? IPS.SEEN_REPLY : 0,
      destination: destination?.address ?? new Uint8Array(0),
      port: destination?.port ?? 0,
    });
    const operation = 'conntrack.dump';
    let entries = new ConntrackEntries(family, new Uint8Array(0));
    for (const answer of await this.#submit(writer.finish(), operation)) {
      if (answer.kind === 'conntrackEntries')
        entries = new ConntrackEntries(family, answer.entries);
      if (answer.kind !== 'dumped') continue;
      const { errno, interrupted, overrun, message } = answer;
      if (errno !== 0) throw this.#error(operation, errnoName(errno), message);
      return { entries, complete: interrupted === 0 && overrun === 0 };
    }
    throw this.#error(operation, 'EPROTO', 'the answer has no end');
  }

  async delete(entries: ConntrackEntries): Promise<ConntrackDeletion> {
    const writer = new RecordWriter(conntrackRequests, entries.bytes.length + 64);
    writer.write('conntrackDelete', { family: NFPROTO[entries.family], entries: entries.bytes });
    const operation = 'conntrack.delete';
    for (const answer of await this.#submit(writer.finish(), operation)) {
      if (answer.kind === 'conntrackDeleted') return deletionOf(answer.errors);
    }
    throw this.#error(operation, 'EPROTO', 'the answer has no result');
  }

  close(): void {
    this.#socket.close();
  }

  async #submit(buffer: Uint8Array, operation: string): Promise<Answer[]> {
    const reply = await submit(this.#socket, buffer, operation, this.#namespace);
    const records = [...readRecords(answers, reply)];
    const failed = records.find((record) => record.kind === 'failed');
    if (failed !== undefined) throw this.#error(operation, errnoName(failed.errno), failed.message);
    return records;
  }

  #error(operation: string, code: string, words: string): KernelError {
    return new KernelError({ operation, subject: this.#namespace, code, words });
  }
}

/** `errors`: u32 in host order for each entry. */
function deletionOf(errors: Uint8Array): ConntrackDeletion {
  const view = new DataView(errors.buffer, errors.byteOffset, errors.byteLength);
  const codes = Array.from({ length: errors.length / 4 }, (_, index) => {
    const errno = view.getUint32(index * 4, true);
    return { index, code: errno === 0 ? undefined : errnoName(errno) };
  });
  const gone = codes.filter(({ code }) => code === 'ENOENT').length;
  const failures = codes.flatMap(({ index, code }) =>
    code === undefined || code === 'ENOENT' ? [] : [{ index, code }],
  );
  return { deleted: codes.length - gone - failures.length, gone, failures };
}
