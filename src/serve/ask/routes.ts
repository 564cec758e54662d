/** Answers only programs on this machine, because names of Services should not leave it. */
import { isIP } from 'node:net';
import { type Answer, type EndpointName, endpoints } from '../../ask/endpoints.ts';
import { splitHostPort } from '../../config/host-port.ts';
import { Pacer } from '../../sync/clock.ts';
import { type Asked, jsonHeaders, type Reply, type Route, type Routes } from '../server.ts';
import { changeListOf } from './changes.ts';
import { diffOf } from './diff.ts';
import { explanationOf } from './explain/explanation.ts';
import type { Inside } from './inside.ts';
import { pacedJson } from './paced-json.ts';
import { Refusal } from './refusal.ts';
import { serviceOf } from './service.ts';
import { servicesOf, sliceMs } from './services.ts';
import { statusOf } from './status.ts';
import { trafficOf } from './traffic.ts';

type Answers = {
  readonly [Name in EndpointName]: (
    inside: Inside,
    query: URLSearchParams,
  ) => Answer<Name> | Promise<Answer<Name>>;
};

const answers: Answers = {
  status: statusOf,
  services: servicesOf,
  service: serviceOf,
  changes: changeListOf,
  traffic: trafficOf,
  explain: explanationOf,
  diff: diffOf,
};

export function askRoutes(inside: Inside): Routes {
  const names = Object.keys(endpoints) as EndpointName[];
  return Object.fromEntries(names.map((name) => [endpoints[name].path, route(inside, name)]));
}

function route(inside: Inside, name: EndpointName): Route {
  return async (asked) => {
    try {
      admit(asked, Object.keys(endpoints[name].query));
      const answer = await answers[name](inside, asked.query);
      const { pause } = new Pacer(inside.clock, sliceMs);
      return json(200, await pacedJson(answer, pause));
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return json(error.status, JSON.stringify({ error: error.message }));
    }
  };
}

/** Throws a Refusal unless the asker may have an answer, and all parameters are known. */
export function admit({ host, method, peer, query }: Asked, known: readonly string[]): void {
  if (!isLoopbackText(peer)) {
    throw new Refusal(403, `answers are for this node: ${peer} is no loopback address`);
  }
  // A page of another site may resolve its own name to this server (DNS rebinding). It can't have
  // an address as its name.
  if (!isAddressed(host)) {
    throw new Refusal(403, `the Host header must be an address or localhost, not "${host}"`);
  }
  if (method !== 'GET') throw new Refusal(405, `method ${method} is not allowed: GET`);
  const unknown = [...query.keys()].find((key) => !known.includes(key));
  if (unknown !== undefined) throw new Refusal(400, `there is no parameter "${unknown}"`);
}

function isLoopbackText(address: string): boolean {
  return /^(::ffff:)?127\./i.test(address) || address === '::1';
}

function isAddressed(host: string): boolean {
  const name = splitHostPort(host)?.host ?? host.replace(/^\[(.*)\]$/, '$1');
  return name.toLowerCase() === 'localhost' || isIP(name) !== 0;
}

function json(status: number, text: string): Reply {
  const headers = { ...jsonHeaders, 'Cache-Control': 'no-store' };
  return { status, headers, body: `${text}\n` };
}
