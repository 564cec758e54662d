/** Collects the facts about this node that a bug report needs, as text files. */
import { readdirSync } from 'node:fs';
import { machine, release, version } from 'node:os';
import { fairleadLine, kubernetesLine } from '../../config/version.ts';
import { type HostFiles, hostFiles } from '../../host/files.ts';
import type { Kernel, ReplyOf } from '../../kernel/kernel.ts';
import { openKernel } from '../../kernel/native-kernel.ts';
import { VERDICT } from '../../kernel/nft/constants.ts';
import { ruleText } from '../../kernel/nft/print-rule.ts';
import { familyWord, hookWord } from '../../kernel/nft/words.ts';
import { printableText } from '../../serve/printable.ts';
import { reply } from '../ask/client.ts';

export interface BundleFile {
  /** Lower-case letters, digits, points and hyphens. */
  readonly name: string;
  /** Printable, without secrets. */
  readonly text: string;
}

/** Longer files are cut. */
const fileCharactersMax = 2 * 1024 * 1024;
/** The timeout of one question. */
const patienceMs = 5000;

/** Questions to the running process. A process that hangs answers none. */
const answers = {
  'status.json': '/fairlead/v1/status',
  'problems.json': '/fairlead/v1/problems',
  'services.json': '/fairlead/v1/services?limit=1000',
  'changes.json': '/fairlead/v1/changes?limit=1000',
  'diff.json': '/fairlead/v1/diff',
  'metrics.txt': '/metrics',
  'configuration.json': '/configz',
  'flags.txt': '/flagz',
  'process.txt': '/statusz',
} as const;

/** Files of /proc about the network of this namespace and of the machine. */
const facts = {
  'routes-ipv4.txt': '/proc/net/fib_trie',
  'routes-ipv6.txt': '/proc/net/ipv6_route',
  'addresses-ipv6.txt': '/proc/net/if_inet6',
  'interfaces.txt': '/proc/net/dev',
  'sockets.txt': '/proc/net/sockstat',
  'conntrack-statistics.txt': '/proc/net/stat/nf_conntrack',
  'ipvs.txt': '/proc/net/ip_vs',
  'iptables-legacy.txt': '/proc/net/ip_tables_names',
  'memory.txt': '/proc/meminfo',
  'pressure-cpu.txt': '/proc/pressure/cpu',
  'limits.txt': '/proc/1/limits',
} as const;

/** Folders of settings, each file of which is read. */
const settings = [
  '/proc/sys/net/netfilter',
  '/proc/sys/net/ipv4',
  '/proc/sys/net/ipv4/conf/all',
  '/proc/sys/net/ipv4/vs',
  '/proc/sys/net/ipv6/conf/all',
] as const;

/** Sources of facts that the process does not provide. Tests pass others. */
interface BundleSources {
  readonly host: HostFiles;
  readonly ruleset: () => Promise<string>;
}

/** `server`: `http://127.0.0.1:10249`. For what cannot be read, the file contains the reason. */
export async function collectBundle(
  server: string,
  { host, ruleset }: BundleSources = { host: hostFiles(), ruleset: readRuleset },
): Promise<BundleFile[]> {
  const asked = await askAll(server);
  const files: Record<string, string> = {
    'version.txt': kubernetesLine + fairleadLine,
    'kernel.txt': `${release()} ${machine()}\n${version()}\n`,
    ...asked,
    'ruleset.nft.txt': await ruleset().catch(unreadable),
    'sysctls.txt': sysctlsText(host),
    // Root reads where modules are in memory, which helps who attacks the kernel.
    'modules.txt': readText(host, '/proc/modules').replaceAll(/ 0x[\da-f]+/g, ''),
    ...Object.fromEntries(
      Object.entries(facts).map(([name, path]) => [name, readText(host, path)]),
    ),
  };
  return Object.entries(files)
    .filter(([, text]) => text !== '')
    .map(([name, text]) => ({ name, text: shown(text) }));
}

/** A process that does not answer the first question is not asked the others. */
async function askAll(server: string): Promise<Record<string, string>> {
  const texts: Record<string, string> = {};
  for (const [name, path] of Object.entries(answers)) {
    try {
      texts[name] = (await reply(`${server}${path}`, server, patienceMs)).body;
    } catch (error) {
      texts[name] = unreadable(error as Error);
      if (name === 'status.json') break;
    }
  }
  return texts;
}

async function readRuleset(): Promise<string> {
  const kernel = openKernel();
  try {
    return await rulesetText(kernel);
  } finally {
    kernel.close();
  }
}

function unreadable({ message }: Error): string {
  return `could not be read: ${message}\n`;
}

function sysctlsText(host: HostFiles): string {
  const lines = settings.flatMap((folder) =>
    namesIn(folder).flatMap((name) => {
      const path = `${folder}/${name}`;
      const value = readText(host, path).trim().replaceAll('\n', ' ');
      const key = path.slice('/proc/sys/'.length).replaceAll('/', '.');
      return value === '' || isSecret(name) ? [] : [`${key} = ${value}`];
    }),
  );
  return `${lines.join('\n')}\n`;
}

/** Keys of TCP Fast Open and of stable addresses. */
function isSecret(name: string): boolean {
  return /key|secret/.test(name);
}

function namesIn(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
  } catch {
    return [];
  }
}

/** Empty if the file does not exist or cannot be read. */
function readText(host: HostFiles, path: string): string {
  try {
    const text = host.read(path) ?? '';
    return text === '' ? '' : `${text}\n`;
  } catch {
    return '';
  }
}

function shown(text: string): string {
  const cut =
    text.length > fileCharactersMax
      ? `${text.slice(0, fileCharactersMax)}\n[cut at ${fileCharactersMax} characters]\n`
      : text;
  return printableText(redacted(cut));
}

const replacement = '[redacted]';

/**
 * Each pattern and its replacement. The text before a secret is kept, so that the file can be read.
 * No pattern scans the rest of a long text again from each of its characters.
 */
const secrets: readonly (readonly [RegExp, string])[] = [
  // PEM, on one line of JSON or on several lines.
  [/-----BEGIN [A-Z ]+-----[\s\S]*?(?:-----END [A-Z ]+-----|$)/g, replacement],
  // JSON Web Tokens, which service accounts use.
  [/\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g, replacement],
  [/\b(Bearer|Basic)\s+[\w.~+/=-]+/gi, `$1 ${replacement}`],
  // User and password in a URL.
  [/(\w:\/\/)[^\s/@"']+@/g, `$1${replacement}@`],
  [
    /((?:secret|[\w-]{0,40}token|client-key-data|client-certificate-data|api-?key)["']?\s*[:=]\s*|(?:pass(?:word|wd|phrase)|psk|pre-?shared-?key|private-?key)(?:["']?\s*[:=]\s*|\s+))(?!["']?\[redacted\])(?:(["'])[^"'\n]*|[^\s"',}]+)/gi,
    `$1$2${replacement}`,
  ],
];

/** Removes secrets from a file that is to be passed on. */
export function redacted(text: string): string {
  return secrets.reduce((left, [pattern, by]) => left.replace(pattern, by), text);
}

type Chain = ReplyOf<'chain'>;
type RuleRecord = ReplyOf<'rule'>;

const noHook = 0xffffffff;
/** Mode iptables has several rules for each Service. */
const rulesMax = 20_000;
const everything = { family: 0, table: '', chain: '' } as const;

/**
 * All chains and rules of nf_tables of this network namespace, in the format of `nft list ruleset`,
 * without elements of sets, of which there are as many as Services. Rejects with KernelError.
 */
async function rulesetText(kernel: Kernel): Promise<string> {
  const { records } = await kernel.dump({ kind: 'chainsDump', family: 0, table: '' });
  const chains = records.filter((one) => one.kind === 'chain');
  const rules = new Map<string, RuleRecord[]>();
  let count = 0;
  await kernel.dump({ kind: 'rulesDump', ...everything }, (one) => {
    count += 1;
    if (one.kind !== 'rule' || count > rulesMax) return;
    const known = rules.get(keyOf(one));
    if (known === undefined) rules.set(keyOf(one), [one]);
    else known.push(one);
  });
  const tables = Map.groupBy(chains, ({ family, table }) => `${familyWord(family)} ${table}`);
  const texts = Array.from(tables, ([name, of]) => {
    const body = of.flatMap((chain) => chainLines(chain, rules.get(keyOf(chain)) ?? []));
    return `table ${name} {\n${body.map((line) => `  ${line}\n`).join('')}}\n`;
  });
  const cut = count > rulesMax ? `# ${count - rulesMax} more rules\n` : '';
  return texts.join('') + cut;
}

function chainLines(chain: Chain, rules: readonly RuleRecord[]): string[] {
  const { family, hook, policy, priority, type } = chain;
  const verdict = policy === VERDICT.drop ? 'drop' : 'accept';
  const base = `type ${type} hook ${hookWord(family, hook)} priority ${priority}; policy ${verdict};`;
  return [
    `chain ${chain.chain} {`,
    ...(hook === noHook ? [] : [`  ${base}`]),
    ...rules.map((rule) => `  ${lineOf(rule)}`),
    '}',
  ];
}

function lineOf({ comment, expressions, family }: RuleRecord): string {
  const text = ruleText(family, expressions);
  return comment === '' ? text : `${text} comment "${comment}"`;
}

function keyOf({ chain, family, table }: Pick<Chain, 'chain' | 'family' | 'table'>): string {
  return `${family} ${table} ${chain}`;
}
