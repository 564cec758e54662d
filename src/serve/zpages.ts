/**
 * /flagz and /statusz, as text for people, or as JSON or YAML for programs (KEP-4828, KEP-4827).
 */
import { stringify } from 'yaml';
import { fairleadVersion } from '../config/version.ts';
import { jsonHeaders, type Reply, textReply } from './reply.ts';

type Fields = Readonly<Record<string, unknown>>;

export interface Page {
  readonly kind: 'Flagz' | 'Statusz';
  readonly text: () => readonly string[];
  readonly object: () => Fields;
}

const component = 'fairlead';
const group = 'config.k8s.io';
const versions = ['v1beta1', 'v1alpha1'] as const;

type Form =
  | { readonly kind: 'text' }
  | { readonly kind: 'object'; readonly type: string; readonly version: (typeof versions)[number] };

/** Answers in the first format of the Accept header that the page supports. */
export function servePage(page: Page, accept: string): Reply {
  const form = formOf(page.kind, accept);
  if (form === undefined) {
    const known = `text/plain, or application/json or application/yaml with as=${page.kind}`;
    const body = `unknown format: ask for ${known};v=${versions[0]};g=${group}\n`;
    return textReply(406, body);
  }
  if (form.kind === 'text') return textReply(200, textOf(page));
  const { type, version } = form;
  const apiVersion = `${group}/${version}`;
  const metadata = { name: component };
  const object = { kind: page.kind, apiVersion, metadata, ...page.object() };
  const deprecation = `299 - "${apiVersion} ${page.kind} is deprecated, use ${group}/v1beta1"`;
  return {
    status: 200,
    headers: {
      ...jsonHeaders,
      'Content-Type': type,
      ...(version === 'v1alpha1' ? { Warning: deprecation } : {}),
    },
    body: type === 'application/yaml' ? stringify(object) : `${JSON.stringify(object)}\n`,
  };
}

function textOf({ kind, text }: Page): string {
  const head = [`${component} ${kind.toLowerCase()}`, 'Warning: for people; the form may change.'];
  return ['', ...head, '', ...text(), ''].join('\n');
}

function formOf(kind: Page['kind'], accept: string): Form | undefined {
  for (const range of accept === '' ? ['*/*'] : accept.toLowerCase().split(',')) {
    const [type = '', ...parts] = range.split(';').map((part) => part.trim());
    if (['*/*', 'text/*', 'text/plain'].includes(type)) return { kind: 'text' };
    if (type !== 'application/json' && type !== 'application/yaml') continue;
    const asked = new Map(parts.map((part) => part.split('=', 2) as [string, string]));
    const version = versions.find((one) => one === asked.get('v'));
    const isKnown = asked.get('as') === kind.toLowerCase() && asked.get('g') === group;
    if (isKnown && version !== undefined) return { kind: 'object', type, version };
  }
  return undefined;
}

/** Values are shown as given: no flag of kube-proxy contains a secret. */
export function flagz(flags: readonly { readonly name: string; readonly value: string }[]): Page {
  return {
    kind: 'Flagz',
    text: () => flags.map(({ name, value }) => `${name}=${value}`),
    object: () => ({ flags: Object.fromEntries(flags.map(({ name, value }) => [name, value])) }),
  };
}

interface StatuszOptions {
  /** Milliseconds since the epoch. */
  readonly startedMs: number;
  readonly nowMs: number;
  /** The release of kube-proxy that this program replaces, `v1.36.2`. */
  readonly kubernetesVersion: string;
  readonly paths: readonly string[];
}

export function statusz(options: StatuszOptions): Page {
  const { startedMs, nowMs, paths } = options;
  const uptimeSeconds = Math.floor((nowMs - startedMs) / 1000);
  const binaryVersion = fairleadVersion.slice(1);
  const emulationVersion = options.kubernetesVersion.slice(1).split('.', 2).join('.');
  // Required field; there is no Go version.
  const goVersion = `none, Node.js ${process.versions.node}`;
  const [started] = new Date(startedMs).toISOString().split('.');
  const startTime = `${started}Z`;
  return {
    kind: 'Statusz',
    text: () => [
      `Started: ${startTime}`,
      `Up: ${uptimeText(uptimeSeconds)}`,
      `Go version: ${goVersion}`,
      `Binary version: ${binaryVersion}`,
      `Emulation version: ${emulationVersion}`,
      `Paths: ${paths.join(' ')}`,
    ],
    object: () => ({
      startTime,
      uptimeSeconds,
      goVersion,
      binaryVersion,
      emulationVersion,
      paths,
    }),
  };
}

function uptimeText(seconds: number): string {
  const two = (value: number): string => String(value).padStart(2, '0');
  const hours = Math.floor(seconds / 3600);
  return `${hours} hr ${two(Math.floor(seconds / 60) % 60)} min ${two(seconds % 60)} sec`;
}
