/** Answers to the questions of `endpoints`, for those whom an `Admit` lets ask. */
import { type Answer, type EndpointName, endpoints } from '../../ask/endpoints.ts';
import type { Pause } from '../../time/pacer.ts';
import { RecentResults } from '../../time/recent.ts';
import { jsonHeaders, type Reply, type Route, type Routes, textReply } from '../reply.ts';
import { type Admit, checkParameters } from './admission.ts';
import type { AgentState } from './agent-state.ts';
import { answerPacer } from './answer-pacer.ts';
import { changeListOf } from './changes.ts';
import { diffOf } from './diff.ts';
import { problemListOf } from './problem-list.ts';
import { isAsked, Refusal } from './refusal.ts';
import { serviceOf } from './service.ts';
import { servicesOf } from './services.ts';
import { statusOf } from './status.ts';
import { trafficOf } from './traffic.ts';

type Answers = {
  readonly [Name in EndpointName]: (
    agent: AgentState,
    query: URLSearchParams,
  ) => Answer<Name> | Promise<Answer<Name>>;
};

const plainAnswers: Omit<Answers, 'diff'> = {
  status: statusOf,
  services: servicesOf,
  service: serviceOf,
  problems: problemListOf,
  changes: changeListOf,
  traffic: trafficOf,
  // Loaded when it is first asked for.
  explain: async (inside, query) => {
    const { explanationOf } = await import('./explain/explanation.ts');
    return explanationOf(inside, query);
  },
};

/** Makes the routes of several servers, which share what is asked at the same time. */
export function askRoutes(agent: AgentState): (admit: Admit) => Routes {
  const diffs = new RecentResults<Answer<'diff'>>(agent);
  const answers: Answers = { ...plainAnswers, diff: () => diffs.of('', () => diffOf(agent)) };
  const names = Object.keys(endpoints) as EndpointName[];
  return (admit) =>
    Object.fromEntries(
      names.map((name) => [endpoints[name].path, route(agent, name, answers, admit)]),
    );
}

type Reported = Parameters<typeof import('./report/reports.ts').reportOf>[0];

function route(agent: AgentState, name: EndpointName, answers: Answers, admit: Admit): Route {
  const { path } = endpoints[name];
  const known = Object.keys(endpoints[name].query);
  return async (asked) => {
    const { query } = asked;
    try {
      await admit(asked, path);
      checkParameters(asked, known);
      if (isAsked(query, 'form', 'report')) {
        const { reportOf } = await import('./report/reports.ts');
        const report = await reportOf(name as Reported, (one) => answers[one](agent, query));
        return textReply(200, report);
      }
      const answer = await answers[name](agent, query);
      const { pause } = answerPacer(agent);
      return json(200, [...(await pacedJson(answer, pause)), '\n']);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      const { candidates, message, status } = error;
      if (query.has('form')) return textReply(status, `${message}\n`);
      return json(status, `${JSON.stringify({ error: message, candidates })}\n`);
    }
  };
}

function json(status: number, body: Reply['body']): Reply {
  const headers = { ...jsonHeaders, 'Cache-Control': 'no-store' };
  return { status, headers, body };
}

/**
 * Like JSON.stringify, with pauses between the items of the body's own lists, which may be long: as
 * texts that follow one another.
 */
export async function pacedJson(body: object, pause: Pause): Promise<string[]> {
  const texts: string[] = [];
  for (const [name, value] of Object.entries(body)) {
    if (value === undefined) continue;
    texts.push(`${texts.length === 0 ? '{' : ','}${JSON.stringify(name)}:`);
    if (Array.isArray(value)) await addList(texts, value, pause);
    else texts.push(JSON.stringify(value));
  }
  texts.push(texts.length === 0 ? '{}' : '}');
  return texts;
}

const itemsPerPause = 16;

async function addList(texts: string[], items: readonly unknown[], pause: Pause): Promise<void> {
  texts.push('[');
  for (let i = 0; i < items.length; i += 1) {
    if (i > 0) texts.push(',');
    texts.push(JSON.stringify(items[i]));
    if (i % itemsPerPause !== itemsPerPause - 1) continue;
    const rest = pause();
    if (rest !== undefined) await rest;
  }
  texts.push(']');
}
