/** The page for people, at `/`: made from the answers that programs get, for the same askers. */
import type { Inside } from '../ask/inside.ts';
import { Refusal } from '../ask/refusal.ts';
import { admit } from '../ask/routes.ts';
import { statusOf } from '../ask/status.ts';
import { type Asked, type Reply, type Routes, textHeaders } from '../server.ts';
import { html } from './html.ts';
import { contentSecurityPolicy } from './look.ts';
import { documentOf } from './parts.ts';
import { nodeSection, verdict } from './status.ts';

const headers = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': contentSecurityPolicy,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'Cache-Control': 'no-store',
} as const;

export function pageRoutes(inside: Inside): Routes {
  return { '/': (asked) => page(inside, asked) };
}

function page(inside: Inside, asked: Asked): Reply {
  try {
    admit(asked, []);
    return { status: 200, headers, body: front(inside) };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { status: error.status, headers: textHeaders, body: `${error.message}\n` };
  }
}

function front(inside: Inside): string {
  const status = statusOf(inside);
  const title = `${status.node}: ${status.well ? 'well' : 'not well'} · Fairlead`;
  const body = html`<header><h1>Fairlead on ${status.node}</h1></header>
<main>
${verdict(status, inside.clock.wallMs())}${nodeSection(status)}</main>`;
  return documentOf(title, body);
}
