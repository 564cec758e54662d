/** The numbers that matter, at a glance. */
import type { Status } from '../../ask/status.ts';
import { counted, grouped } from '../../ask/words.ts';
import type { Traffic } from '../service-counters.ts';
import { type Html, html } from './html.ts';
import { aSecond, live } from './parts.ts';

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
