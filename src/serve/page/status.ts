/** The health of this node's proxy on the page: one sentence, then the problems. */

import { reasonSections, reasonWords } from '../../ask/problem-reasons.ts';
import type { ProblemList } from '../../ask/problems.ts';
import type { ChangeList } from '../../ask/service.ts';
import type { Status } from '../../ask/status.ts';
import { familiesTable, setAsideTable, statusFacts, watchesTable } from '../../ask/views/status.ts';
import { age, counted, grouped } from '../../ask/words.ts';
import type { Traffic } from '../service-counters.ts';
import { type Content, type Html, html } from './html.ts';
import {
  aSecond,
  facts,
  list,
  live,
  problemList,
  runbookLink,
  servicePath,
  table,
} from './parts.ts';

type Change = ChangeList['items'][number];

/** `services`: those with problems. */
export function verdict(
  status: Status,
  services: ProblemList,
  last: Change | undefined,
  nowMs: number,
): Html {
  const { problems, remarks, runbook, setAside, healthy } = status;
  const unhealthy = servicesWithProblems(status);
  const sentence = healthy
    ? html`<strong class="good">Proxy healthy.</strong> ${summary(status)}${lastChange(last, nowMs)}.`
    : html`<strong class="bad">Proxy unhealthy.</strong> ${problems[0]} ${runbookLink(runbook[0]!)}${unhealthy && ['. ', unhealthy, '.']}`;
  return live('status', [
    html`<p class="verdict${healthy ? '' : ' bad'}">${sentence}</p>`,
    problems.length > 1 ? problemList(problems.slice(1), runbook.slice(1)) : undefined,
    serviceProblems(services),
    remarks.length > 0 ? html`<h2>Worth knowing</h2>${list(remarks)}` : undefined,
    setAside.length > 0
      ? [html`<h2>Refused by the kernel</h2>`, table(setAsideTable(status), nowMs)]
      : undefined,
  ]);
}

function summary(status: Status): Content {
  const { families, services } = status;
  const { known } = services;
  const waiting = Math.max(services.waiting, ...families.map((family) => family.waiting));
  const wait = `${grouped(waiting)} of ${counted(known, 'Service')} wait`;
  const unhealthy = servicesWithProblems(status);
  if (unhealthy !== undefined) return waiting > 0 ? [unhealthy, `; ${wait}`] : unhealthy;
  if (waiting > 0) return wait;
  return known === 1
    ? 'The only Service is in force'
    : `All ${counted(known, 'Service')} are in force`;
}

/** `6 Services have problems`; undefined if there are none. */
function servicesWithProblems({ services: { withProblems } }: Status): Html | undefined {
  if (withProblems === 0) return undefined;
  const text = `${counted(withProblems, 'Service')} ${withProblems === 1 ? 'has' : 'have'} problems`;
  return html`<a href="/?state=unhealthy#services">${text}</a>`;
}

function lastChange(change: Change | undefined, nowMs: number): string {
  if (change?.latencyMs === undefined) return '';
  const since = age((nowMs - Date.parse(change.time)) / 1000);
  return `; the last change, ${since} ago, took ${change.latencyMs} ms`;
}

/** The other facts about the node. */
export function nodeSection(status: Status, nowMs: number): Html {
  return live('node', [
    html`<h2>This node</h2>`,
    facts(statusFacts(status), nowMs),
    html`<h3>Families</h3>`,
    table(familiesTable(status), nowMs),
    ...(status.watches.length > 0
      ? [html`<h3>Watches</h3>`, table(watchesTable(status), nowMs)]
      : []),
  ]);
}

/** The numbers that matter, at a glance. */
interface Tile {
  readonly name: string;
  readonly value: string;
  readonly isBad?: boolean;
  readonly href: string;
}

/** More than this of the table of connection tracking is bad; the alert has the same limit. */
const conntrackPercentMax = 80;

export function tiles(status: Status, traffic: Traffic | undefined): Html {
  const items = [...ofServices(status), ...ofConntrack(status), ...ofTraffic(traffic)];
  return live('tiles', html`<dl class="tiles">${items.map(tile)}</dl>`);
}

function tile({ href, isBad, name, value }: Tile): Html {
  return html`<div${isBad ? html` class="bad"` : ''}><dt>${name}</dt><dd><a href="${href}">${value}</a></dd></div>
`;
}

function ofServices({ services: { known, withProblems } }: Status): Tile[] {
  const isBad = withProblems > 0;
  return [
    { name: 'Services', value: grouped(known), href: '/#services' },
    {
      ...{ name: 'with problems', value: grouped(withProblems), isBad },
      href: '/?state=unhealthy#services',
    },
  ];
}

function ofConntrack({ conntrack }: Status): Tile[] {
  if (conntrack === undefined) return [];
  const percent = Math.round((100 * conntrack.entries) / conntrack.limit);
  const isBad = percent > conntrackPercentMax;
  const href = isBad ? '/?runbook#connection-tracking-is-full' : '/#node';
  return [{ name: 'of conntrack in use', value: `${percent} %`, isBad, href }];
}

function ofTraffic(traffic: Traffic | undefined): Tile[] {
  if (traffic === undefined) return [];
  const { rates } = traffic;
  return [
    { name: 'connections a second', value: aSecond(rates?.connections), href: '/#services' },
    { name: 'refused a second', value: aSecond(rates?.refusals), href: '/#lately' },
  ];
}

/** `changes`: in each half minute, the oldest first. */
export function latelySection(changes: readonly number[], traffic: Traffic | undefined): Html {
  const refused = traffic?.refused;
  return live(
    'lately',
    html`<h2>Last ten minutes</h2>
<dl>${sparkline('change', changes)}${refused && sparkline('refused packet', refused)}</dl>`,
  );
}

const heightPx = 24;

function sparkline(noun: string, counts: readonly number[]): Html {
  const most = Math.max(1, ...counts);
  const bars = counts.map((count, i) => {
    // One of many is to be seen, too.
    const bar = count === 0 ? 0 : Math.max(1, Math.round((heightPx * count) / most));
    return `M${i} ${heightPx}v-${bar}h.8v${bar}z`;
  });
  const all = counts.reduce((sum, count) => sum + count);
  const text = `${counted(all, noun)}, at most ${grouped(Math.max(...counts))} in half a minute`;
  return html`<dt>${noun === 'change' ? 'Changes' : 'Refused'}</dt>
<dd><svg viewBox="0 0 ${counts.length} ${heightPx}" preserveAspectRatio="none" aria-hidden="true"><path d="${bars.join('')}"/></svg> ${text}</dd>
`;
}

/** The most Services that are named. */
export const namedMax = 5;

function serviceProblems({ continue: more, items }: ProblemList): Content {
  if (items.length === 0) return undefined;
  const all = items.flatMap(({ name, namespace, problems }) =>
    problems.map(({ reason, text }) => {
      const service = html`<a href="${servicePath(namespace, name)}">${namespace}/${name}</a>`;
      const link = runbookLink(reasonSections[reason]);
      return html`${service} <strong class="bad">${reasonWords(reason)}</strong> ${text} ${link}`;
    }),
  );
  const rest = html`<p><a href="/?state=unhealthy#services">All Services with problems</a></p>`;
  return [html`<h2 id="problems">Problems of Services</h2>`, list(all), more && rest];
}
