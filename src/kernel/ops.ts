/**
 * THE schema of what crosses the boundary to the addon. `scripts/generate.ts` writes
 * `native/protocol/ops.gen.h` from it; a test fails when they differ.
 *
 * Numbers that the kernel defines (families, hooks, flags, registers, keys) are passed as the
 * kernel's own values, see `nft/constants.ts` and linux/netfilter/nf_tables.h.
 *
 * IPVS, links, sets of ipset, iptables-legacy, connection tracking, programs of bpf and traced
 * packets have separate files: `*-ops.ts`.
 */
import { acctOps, acctReplies, acctRequests } from './acct-ops.ts';
import { bpfOps, bpfReplies, bpfRequests } from './bpf-ops.ts';
import { bytesReplies, bytesRequests } from './conntrack-ops.ts';
import { ipsetOps, ipsetReplies, ipsetRequests } from './ipset-ops.ts';
import { ipvsOps, ipvsReplies, ipvsRequests } from './ipvs-ops.ts';
import { legacyOps, legacyReplies, legacyRequests } from './legacy-ops.ts';
import { nftraceReplies, nftraceRequests } from './nftrace-ops.ts';
import type { RecordOf, Schema } from './records.ts';
import { routeOps, routeReplies, routeRequests } from './route-ops.ts';

const inTable = { family: 'u8', table: 'string' } as const;
const inChain = { ...inTable, chain: 'string' } as const;
const inSet = { ...inTable, set: 'string' } as const;

/** A flowtable, hooked at the ingress of devices. */
const inFlowtable = { ...inTable, flowtable: 'string' } as const;

/** Names of network devices, separated by spaces, which no name has (dev_valid_name). */
const devices = { devices: 'string' } as const;

/** `type`: NFT_OBJECT_*: a counter, a quota, …; NFT_OBJECT_UNSPEC (0) is a flowtable. */
const inObject = { ...inTable, type: 'u32', object: 'string' } as const;

const setShape = {
  /** NFT_SET_* flags. */
  flags: 'u32',
  /** nft's type number, 6 bits for each part of a concatenation. */
  keyType: 'u32',
  /** Bytes, each part of a concatenation padded to 4. */
  keyLength: 'u32',
  /** nft's type number; NFT_DATA_VERDICT for a verdict map; 0 for a set. */
  dataType: 'u32',
  /** Bytes; 0 for a set and for a verdict map. */
  dataLength: 'u32',
  /** Default timeout of elements; 0 = none. */
  timeoutMs: 'u64',
  /** Maximal number of elements; 0 = unlimited. */
  size: 'u32',
  /** A record of `expressions`: each element has a copy, for packets that are looked up with it. */
  statement: 'bytes',
} as const;

/**
 * `entries` holds `count` entries one after the other, each: key (`keyLength` bytes), then the
 * parts named by `shape` (ElementShape) in the order of its bits.
 */
const elements = {
  ...inSet,
  shape: 'u32',
  keyLength: 'u32',
  dataLength: 'u32',
  count: 'u32',
  entries: 'bytes',
} as const;

/**
 * A rule among those of others: in the tables of iptables-nft.
 * `protocol`: IPPROTO_*, which the rule also matches by an expression; nft_compat shows it to
 * matches and targets that work for certain protocols only (NFTA_RULE_COMPAT). 0 = any.
 * `echo`: 1 = answer with the handle of the rule, in a record `ruleHandle`.
 */
const xtRule = { protocol: 'u8', echo: 'u8', expressions: 'bytes' } as const;

/** Which parts an entry of an `elements` record has after its key, in this order. */
export const ElementShape = {
  /** u32, NFT_SET_ELEM_* flags. */
  flags: 1,
  /** `dataLength` bytes. */
  data: 2,
  /** i32 verdict code, u32 length of the chain's name, the name padded to a multiple of 4. */
  verdict: 4,
  /** u64 packets that the element's counter has seen; dumps only. */
  counter: 8,
  /** u32 length of the comment, the comment padded to a multiple of 4. */
  comment: 16,
} as const;

/** Ops that change nf_tables. A buffer of them is one transaction: all or nothing. */
export const nftOps = {
  tableAdd: { code: 2, fields: { ...inTable, comment: 'string' } },
  tableDelete: { code: 3, fields: inTable },
  chainAdd: { code: 4, fields: { ...inChain, comment: 'string' } },
  /**
   * `policy`: NF_ACCEPT or NF_DROP, also for a chain that exists; `keepPolicy` leaves that of a
   * chain that exists, and is to accept for a new one.
   */
  baseChainAdd: {
    code: 5,
    fields: {
      ...inChain,
      type: 'string',
      hook: 'u32',
      priority: 'i32',
      policy: 'u32',
      comment: 'string',
    },
  },
  chainDelete: { code: 6, fields: inChain },
  /** Deletes all rules of the chain. */
  chainFlush: { code: 7, fields: inChain },
  /** Appends; `expressions` holds records of the schema `expressions`. */
  ruleAdd: { code: 8, fields: { ...inChain, expressions: 'bytes', comment: 'string' } },
  /** `echo`: 1 = answer with what the rule was, in a record `ruleGone`. */
  ruleDelete: { code: 11, fields: { ...inChain, handle: 'u64', echo: 'u8' } },
  setAdd: { code: 12, fields: { ...inSet, ...setShape, comment: 'string' } },
  setDelete: { code: 13, fields: inSet },
  setFlush: { code: 14, fields: inSet },
  elementsAdd: { code: 15, fields: elements },
  elementsDelete: { code: 16, fields: elements },
  /** Behind the rule whose handle is `position`; 0 = at the end. */
  xtRuleAdd: { code: 17, fields: { ...inChain, position: 'u64', ...xtRule } },
  /** In front of the rule whose handle is `position`; 0 = at the beginning. */
  xtRuleInsert: { code: 18, fields: { ...inChain, position: 'u64', ...xtRule } },
  /**
   * Adds a table that only this socket may change until the socket is closed. The table outlives
   * the socket (NFT_TABLE_F_OWNER, NFT_TABLE_F_PERSIST; Linux 6.9, before that EOPNOTSUPP). This
   * socket becomes the owner of a table that such a socket left behind; the same transaction must
   * not add or delete base chains (EINVAL). EPERM if another socket owns the table, EOPNOTSUPP if
   * it never had an owner.
   */
  tableOwn: { code: 20, fields: { ...inTable, comment: 'string' } },
  /**
   * A table that only the socket which adds it may change, and that goes when it is closed, however
   * the process ends (NFT_TABLE_F_OWNER; Linux 5.12, before that EINVAL or EOPNOTSUPP).
   */
  tableBorrow: { code: 22, fields: { ...inTable, comment: 'string' } },
  /** Deletes what `objectsDump` and `flowtablesDump` find. */
  objectDelete: { code: 21, fields: inObject },
  /**
   * Adds a flowtable, or devices to one that exists with the same priority. `flags`:
   * NFT_FLOWTABLE_*. ENOENT when a device does not exist, EEXIST when another flowtable of the
   * table has it.
   */
  flowtableAdd: {
    code: 23,
    fields: { ...inFlowtable, priority: 'i32', flags: 'u32', ...devices },
  },
  /** Takes devices out of a flowtable. ENOENT when it does not have one of them. */
  flowtableDevicesDelete: { code: 24, fields: { ...inFlowtable, priority: 'i32', ...devices } },
} as const satisfies Schema;

/**
 * All ops. A buffer may mix them; they are done in its order. Consecutive ops of one schema are a
 * run: of `nftOps` a transaction, of the others each op by itself. The first run with a failure
 * ends the buffer.
 */
export const kernelOps = {
  ...nftOps,
  ...ipvsOps,
  ...routeOps,
  ...ipsetOps,
  ...legacyOps,
  ...acctOps,
  ...bpfOps,
} as const;

/** Requests that read nf_tables. A buffer holds exactly one. */
export const requests = {
  generationGet: { code: 64, fields: {} },
  /**
   * An empty `table` or `chain` means all; family 0 (NFPROTO_UNSPEC) means every family, except in
   * requests that name a table.
   */
  tablesDump: { code: 65, fields: { family: 'u8' } },
  chainsDump: { code: 66, fields: inTable },
  rulesDump: { code: 67, fields: inChain },
  setsDump: { code: 68, fields: inTable },
  /** Counters, quotas and the like that have names. */
  objectsDump: { code: 70, fields: inTable },
  flowtablesDump: { code: 71, fields: inTable },
  /**
   * `shape`, `keyLength` and `dataLength` say what the entries of the answer hold. A part that an
   * element lacks reads as zero. EPROTO when the set has keys or data of another length.
   */
  elementsDump: {
    code: 69,
    fields: { ...inSet, shape: 'u32', keyLength: 'u32', dataLength: 'u32' },
  },
} as const satisfies Schema;

/** The replies of nf_tables, and those to ops of all kinds. */
export const replies = {
  /**
   * The transaction was committed. `bytes` of netlink messages took `encodeUs` microseconds to
   * write, and the kernel `kernelUs` to take. They came from the netlink port `port`.
   */
  committed: {
    code: 128,
    fields: { messages: 'u32', bytes: 'u32', encodeUs: 'u32', kernelUs: 'u32', port: 'u32' },
  },
  /**
   * One error of a rejected transaction, or of an op by itself. `op` is the index of the op in the
   * buffer, `entry` the index of the entry within an op that has several; 0xffffffff where the
   * kernel did not say.
   */
  failed: {
    code: 129,
    fields: { op: 'u32', entry: 'u32', errno: 'u32', message: 'string' },
  },
  /**
   * Ends the answer to every request. `interrupted`: the ruleset changed during the dump, or an
   * element appeared twice, which means that others are missing (the kernel was resizing a set).
   * `overrun`: replies were lost. `errno`: 0, or the error of the request; `message` is the kernel's
   * text.
   */
  dumped: {
    code: 130,
    fields: { interrupted: 'u8', overrun: 'u8', errno: 'u32', message: 'string' },
  },
  generation: { code: 131, fields: { generation: 'u32' } },
  /** `owner` is the netlink port of the socket that alone may change the table; 0 = none. */
  table: {
    code: 132,
    fields: { ...inTable, handle: 'u64', flags: 'u32', owner: 'u32', comment: 'string' },
  },
  /**
   * `hook` is 0xffffffff for a chain that is not a base chain. `use` counts references. `flags`:
   * NFT_CHAIN_*.
   */
  chain: {
    code: 133,
    fields: {
      ...inChain,
      handle: 'u64',
      type: 'string',
      hook: 'u32',
      priority: 'i32',
      policy: 'u32',
      use: 'u32',
      flags: 'u32',
      comment: 'string',
    },
  },
  /** `packets`: what its first counter has seen, which is not in `expressions`. */
  rule: {
    code: 134,
    fields: {
      ...inChain,
      handle: 'u64',
      packets: 'u64',
      expressions: 'bytes',
      comment: 'string',
    },
  },
  /**
   * `count` elements are in it; 0xffffffff if the kernel does not report it (before 6.16). `policy`:
   * NFT_SET_POL_*. `gcIntervalMs`: 0 = the kernel's own.
   */
  set: {
    code: 135,
    fields: {
      ...inSet,
      handle: 'u64',
      ...setShape,
      policy: 'u32',
      gcIntervalMs: 'u32',
      count: 'u32',
      comment: 'string',
    },
  },
  /**
   * `strange` counts elements that entries cannot represent: those with a comment or a counter that
   * the shape lacks, other user data, another statement, or an object. It includes catch-all
   * elements, which `entries` omits.
   */
  elements: { code: 136, fields: { ...elements, strange: 'u32' } },
  /** Ends a run of ops that are not a transaction: how many of its messages the kernel accepted. */
  attempted: { code: 137, fields: { taken: 'u32' } },
  /** The handle of the rule that op `op` made; comes with `committed`, for ops that ask. */
  ruleHandle: { code: 138, fields: { op: 'u32', handle: 'u64' } },
  /** The rule that op `op` has deleted, with its last count; comes like `ruleHandle`. */
  ruleGone: { code: 140, fields: { op: 'u32', packets: 'u64', expressions: 'bytes' } },
  /** Answers `objectsDump`. */
  object: { code: 139, fields: inObject },
  /** Answers `flowtablesDump`. `use` counts the rules that refer to it. */
  flowtable: {
    code: 141,
    fields: { ...inFlowtable, priority: 'i32', flags: 'u32', use: 'u32', ...devices },
  },
} as const satisfies Schema;

/** All requests of the interface `Kernel`, and all that comes back to them. */
export const kernelRequests = {
  ...requests,
  ...ipvsRequests,
  ...routeRequests,
  ...ipsetRequests,
  ...legacyRequests,
  ...acctRequests,
  ...nftraceRequests,
  ...bytesRequests,
  ...bpfRequests,
} as const;
export const kernelReplies = {
  ...replies,
  ...ipvsReplies,
  ...routeReplies,
  ...ipsetReplies,
  ...legacyReplies,
  ...acctReplies,
  ...nftraceReplies,
  ...bytesReplies,
  ...bpfReplies,
} as const;

/**
 * Rule expressions, one record for each kernel expression. The decoder writes exactly what the
 * encoder would have read, so that rules compare byte by byte, provided that they are written as
 * the kernel dumps them:
 * - registers: NFT_REG_1 ... NFT_REG_4 for those aligned to 16 bytes, else NFT_REG32_* numbers
 *   (nft_dump_register); 0xffffffff = no register;
 * - nat: the maxima repeat the minima unless there is a range, and the flags include
 *   NF_NAT_RANGE_MAP_IPS with an address, NF_NAT_RANGE_PROTO_SPECIFIED with a port (nft_nat_init).
 */
export const expressions = {
  /** code: NF_ACCEPT, NF_DROP, NFT_GOTO, NFT_JUMP, NFT_RETURN; `chain` is empty unless needed. */
  immediateVerdict: { code: 2, fields: { code: 'i32', chain: 'string' } },
  cmp: { code: 3, fields: { register: 'u32', operation: 'u32', data: 'bytes' } },
  payload: { code: 4, fields: { register: 'u32', base: 'u32', offset: 'u32', length: 'u32' } },
  metaLoad: { code: 5, fields: { register: 'u32', key: 'u32' } },
  metaSet: { code: 6, fields: { register: 'u32', key: 'u32' } },
  /** direction: IP_CT_DIR_*, 0xff = none. */
  ctLoad: { code: 7, fields: { register: 'u32', key: 'u32', direction: 'u8' } },
  bitwise: {
    code: 8,
    fields: { source: 'u32', destination: 'u32', length: 'u32', mask: 'bytes', xor: 'bytes' },
  },
  /** destination: 0 = verdict register, 0xffffffff = only match. flags: NFT_LOOKUP_F_INV. */
  lookup: { code: 9, fields: { set: 'string', source: 'u32', destination: 'u32', flags: 'u32' } },
  /** type: NFT_NG_*. */
  numgen: { code: 10, fields: { register: 'u32', type: 'u32', modulus: 'u32', offset: 'u32' } },
  /** type: NFT_NAT_SNAT, NFT_NAT_DNAT. flags: NF_NAT_RANGE_*. */
  nat: {
    code: 11,
    fields: {
      type: 'u32',
      family: 'u32',
      addressMin: 'u32',
      addressMax: 'u32',
      portMin: 'u32',
      portMax: 'u32',
      flags: 'u32',
    },
  },
  masquerade: { code: 12, fields: { flags: 'u32' } },
  /** type: NFT_REJECT_*. */
  reject: { code: 13, fields: { type: 'u32', icmpCode: 'u8' } },
  /** result: NFT_FIB_RESULT_*; flags: NFTA_FIB_F_*. */
  fib: { code: 14, fields: { register: 'u32', result: 'u32', flags: 'u32' } },
  /**
   * operation: NFT_DYNSET_OP_*; data 0xffffffff for a set; timeoutMs 0 = the set's own. The kernel
   * keeps timeouts in ticks: only multiples of 10 ms read back unchanged on every kernel. over: the
   * connlimit of its elements, `ct count over N`; 0xffffffff: none.
   */
  dynset: {
    code: 15,
    fields: {
      set: 'string',
      operation: 'u32',
      key: 'u32',
      data: 'u32',
      timeoutMs: 'u64',
      over: 'u32',
    },
  },
  counter: { code: 16, fields: {} },
  /** Whether the packet's connection is one of at most `count`. flags: NFT_CONNLIMIT_F_*. */
  connlimit: { code: 25, fields: { count: 'u32', flags: 'u32' } },
  /** Whether there are at most `rate` in `unit` seconds. type: NFT_LIMIT_*; flags: NFT_LIMIT_F_*. */
  limit: {
    code: 26,
    fields: { rate: 'u64', unit: 'u64', burst: 'u32', type: 'u32', flags: 'u32' },
  },
  /**
   * A match of iptables, by nft_compat: its name, revision, and structure (linux/netfilter/xt_*.h)
   * padded to a multiple of 8 bytes.
   */
  match: { code: 18, fields: { name: 'string', revision: 'u32', info: 'bytes' } },
  /** A target of iptables, likewise. */
  target: { code: 19, fields: { name: 'string', revision: 'u32', info: 'bytes' } },
  /** Moves the packet's connection to a flowtable, if it is established and can be moved. */
  flowOffload: { code: 21, fields: { flowtable: 'string' } },
  /** Loads a property of the packet's route. */
  rtLoad: { code: 22, fields: { register: 'u32', key: 'u32' } },
  /** operation: NFT_BYTEORDER_*. Turns numbers of `size` bytes, `length` bytes in all. */
  byteorder: {
    code: 23,
    fields: {
      source: 'u32',
      destination: 'u32',
      operation: 'u32',
      length: 'u32',
      size: 'u32',
    },
  },
  /** Loads a constant. Only rules of others do. */
  immediateData: { code: 20, fields: { register: 'u32', data: 'bytes' } },
  /**
   * `jhash … mod N seed S`, of `length` bytes from register `source` on. The seed is never 0, for
   * which the kernel would take one of its own.
   */
  hash: {
    code: 24,
    fields: {
      source: 'u32',
      destination: 'u32',
      length: 'u32',
      modulus: 'u32',
      seed: 'u32',
      offset: 'u32',
    },
  },
  /** An expression that this version does not decode; never encoded. */
  unknown: { code: 255, fields: { name: 'string' } },
} as const satisfies Schema;

export type NftOp = RecordOf<typeof nftOps>;
export type KernelOp = RecordOf<typeof kernelOps>;
export type NftRequest = RecordOf<typeof requests>;
export type Request = RecordOf<typeof kernelRequests>;
export type Reply = RecordOf<typeof kernelReplies>;
export type Expression = RecordOf<typeof expressions>;

/** What an index field of a reply holds when the kernel did not say which. */
export const unknownIndex = 0xffffffff;
/** The policy of `baseChainAdd` that changes none. */
export const keepPolicy = 0xffffffff;
/** A register field that names no register. */
export const noRegister = 0xffffffff;
