/** Changes and refusals of the last ten minutes, as pictures. */
import { counted, grouped } from '../../ask/words.ts';
import type { Traffic } from '../service-counters.ts';
import { type Html, html } from './html.ts';
import { live } from './parts.ts';

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
